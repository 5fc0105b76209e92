"""Exit statuses of the launcher, and the errors that lead to them."""

from __future__ import annotations

from gdbext.errors import GdbextError

#: Nothing wrong was found.
NOTHING_FOUND = 0
#: A deadlock, or of a core a crash, was found and reported.
FOUND = 1
#: The command line cannot be understood.
BAD_USAGE = 2
#: No answer: the target could not be read (or not enough of it for a verdict), or the report could not be written.
NO_ANSWER = 3
#: There is no GDB, or one without Python.
NO_GDB = 4


class Unreadable(GdbextError):
    """The target cannot be read: no such process, no right to trace it, no core."""


class NoGdb(GdbextError):
    """There is no GDB that can be used."""
