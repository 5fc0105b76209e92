"""Exit statuses of the launcher, and the errors that lead to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdbext.errors import GdbextError
from gdbext.model import Report
from gdbext.model.verdict import STATUS_OF_OUTCOME
from gdbext.verdict.judge import verdict_of

#: Nothing wrong was found.
NOTHING_FOUND = 0
#: A deadlock was found, a crash in a core, or anything else that does not end by itself.
FOUND = 1
#: The command line is not valid.
BAD_USAGE = 2
#: No answer: the target could not be read (or not enough of it for a verdict), or the report could not be written.
NO_ANSWER = 3
#: There is no GDB, or one without Python.
NO_GDB = 4
#: A hang was found that ends only if something outside of the process happens.
OUTSIDE = 5
#: From several targets, the status that counts most comes first.
_ORDER = (FOUND, OUTSIDE, NO_GDB, NO_ANSWER, NOTHING_FOUND)


def status_of(report: Report) -> int:
    """The exit status for a report."""
    return STATUS_OF_OUTCOME[verdict_of(report).outcome]


def worst(statuses: Iterable[int]) -> int:
    """The exit status for several targets."""
    # a machine of a cluster may have a newer version
    known = [status if status in _ORDER else NO_ANSWER for status in statuses]
    return min(known, key=_ORDER.index, default=NOTHING_FOUND)


class NoReport(GdbextError):
    """There is no report on a target. `status` is the exit status for that.

    :param paused: how long the process was paused, in seconds; None if it is not known.
    :param notes: which files were used instead of the recorded ones, one line each.
    """

    status = NO_ANSWER

    def __init__(self, message: str, hint: str = "", paused: float | None = None, notes: Sequence[str] = ()) -> None:
        super().__init__(message, hint)
        self.paused, self.notes = paused, notes

    @property
    def problem(self) -> str:
        """The reason; a report has a reason if it lacks a part."""
        return str(self)


class Unreadable(NoReport):
    """The target cannot be read: no such process, no right to trace it, not a core."""


class NoGdb(NoReport):
    """There is no usable GDB."""

    status = NO_GDB
