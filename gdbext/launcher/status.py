"""Exit statuses of the launcher, and the errors that lead to them."""

from __future__ import annotations

from gdbext.errors import GdbextError

#: Nothing wrong was found.
NOTHING_FOUND = 0
#: A deadlock was found, or a crash in a core.
FOUND = 1
#: The command line is not valid.
BAD_USAGE = 2
#: No answer: the target could not be read (or not enough of it for a verdict), or the report could not be written.
NO_ANSWER = 3
#: There is no GDB, or one without Python.
NO_GDB = 4


class Unreadable(GdbextError):
    """The target cannot be read: no such process, no right to trace it, not a core."""


class NoGdb(GdbextError):
    """There is no usable GDB."""
