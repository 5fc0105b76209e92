"""Registers everything with GDB; `source gdbext` ends here. Doing it twice does no harm."""

from __future__ import annotations

from gdbext.commands import COMMANDS
from gdbext.debugger.command import GdbCommand
from gdbext.debugger.functions import GilHolder, LockOwner


def register() -> None:
    """Make all commands and functions known to GDB."""
    for command in COMMANDS:
        GdbCommand(command)
    GilHolder()
    LockOwner()
