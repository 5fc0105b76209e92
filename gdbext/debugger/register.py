"""Registration with GDB, the last step of the file `gdbext/gdbext`. A second registration does no harm."""

from __future__ import annotations

import gdb

from gdbext.commands.every import COMMANDS
from gdbext.commands.overview import overview
from gdbext.debugger import decorators, functions, settings
from gdbext.debugger.at_prompt import AtPrompt
from gdbext.debugger.command import GdbCommand
from gdbext.debugger.frame_filter import FrameFilter
from gdbext.debugger.in_editor import InEditor, is_in_editor
from gdbext.record import compile_records


class _Overview(gdb.Command):
    """The command `gdbext`, which shows its own help."""

    def __init__(self) -> None:
        self.__doc__ = overview(COMMANDS)
        super().__init__("gdbext", gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument: str, from_tty: bool) -> None:
        """Show the help."""
        gdb.execute("help gdbext")


_at_prompt: AtPrompt | None = None
_in_editor: InEditor | None = None


def register() -> None:
    """Make all settings, commands and functions known to GDB."""
    compile_records()  # now, not while a process is stopped
    settings.register()
    decorators.register()
    for command in COMMANDS:
        GdbCommand(command)
    _Overview()
    functions.register()
    FrameFilter()
    global _at_prompt, _in_editor
    if _at_prompt is None:  # unlike commands, a second event handler would not replace the first
        _at_prompt = AtPrompt()
    if _in_editor is None and is_in_editor():
        _in_editor = InEditor()
