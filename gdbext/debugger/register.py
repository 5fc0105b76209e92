"""Registers everything with GDB; `source gdbext` ends here. Doing it twice does no harm."""

from __future__ import annotations

from gdbext.commands import COMMANDS
from gdbext.debugger import settings
from gdbext.debugger.command import GdbCommand
from gdbext.debugger.frame_filter import FrameFilter
from gdbext.debugger.functions import GilHolder, LockOwner


def register() -> None:
    """Make all settings, commands and functions known to GDB."""
    settings.register()
    for command in COMMANDS:
        GdbCommand(command)
    GilHolder()
    LockOwner()
    FrameFilter()
