"""Registers everything with GDB; the file `gdbext/gdbext` ends here. Doing it twice does no harm."""

from __future__ import annotations

from gdbext.commands import COMMANDS
from gdbext.debugger import decorators, settings
from gdbext.debugger.at_prompt import AtPrompt
from gdbext.debugger.command import GdbCommand
from gdbext.debugger.frame_filter import FrameFilter
from gdbext.debugger.functions import GilHolder, LockOwner

_at_prompt: AtPrompt | None = None


def register() -> None:
    """Make all settings, commands and functions known to GDB."""
    settings.register()
    decorators.register()
    for command in COMMANDS:
        GdbCommand(command)
    GilHolder()
    LockOwner()
    FrameFilter()
    global _at_prompt
    if _at_prompt is None:  # handlers of events are not replaced by others of the same name
        _at_prompt = AtPrompt()
