"""Problems and notes that are found while a snapshot is made."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import TypeVar

from gdbext.errors import INTERNAL, GdbextError
from gdbext.inferior.budget import Budget
from gdbext.model import Problem, ProblemKind
from gdbext.model.reasons import Reason, because, because_of

_Result = TypeVar("_Result")
_Other = TypeVar("_Other")
#: What a stage may raise without an end to the report; errors of GDB are `RuntimeError`. Tests reduce it.
GUARDED: tuple[type[Exception], ...] = (GdbextError, RuntimeError, *INTERNAL)


class Findings:
    """Problems and notes of one snapshot.

    `incomplete` is set if the user must do something before the report can be complete. `doubts` are further reasons
    why a deadlock cannot be ruled out. `mistakes` are the exceptions of stages that failed, with their tracebacks.

    :param budget: the budget of the snapshot.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget
        self.problems: list[Problem] = []
        self._known: set[Problem] = set()
        self.notes: list[Reason] = []
        self.doubts: list[Reason] = []
        self.incomplete: GdbextError | None = None
        self.mistakes: list[Exception] = []

    def guard(self, stage: str, run: Callable[[], _Result], instead: _Other, *,
              doubt: bool = True) -> _Result | _Other:
        """Run a stage of the snapshot that the rest can do without. A failure of it is a problem of the report.

        :param instead: the result if the stage fails.
        :param doubt: whether a deadlock cannot be ruled out then.
        """
        try:
            return run()
        except GUARDED as error:
            why = because_of(error)
            if not isinstance(error, GdbextError):
                self.mistakes.append(error)
                at = traceback.extract_tb(error.__traceback__)[-1]
                why = because("stage-failed", error=type(error).__name__, file=os.path.basename(at.filename),
                              line=at.lineno or 0)
        if doubt:
            self.doubt(stage, why)
        else:
            self.problem(stage, "unreadable", why)
        return instead

    @property
    def spent(self) -> Reason | None:
        """Why not all could be read, if the budget of the snapshot is spent."""
        return self._budget.spent if self._budget is not None else None

    def draw_frames(self, count: int) -> bool:
        """Draw for the frames of a thread; whether the report may have them."""
        return self._budget is None or self._budget.draw_frames(count)

    @property
    def left_out(self) -> Reason | None:
        """Which stacks the report lacks because it has too many frames; None if it has all."""
        return self._budget.left_out if self._budget is not None else None

    def problem(self, where: str, what: ProblemKind, why: Reason) -> None:
        """Add a problem, unless it has been added before: stacks are read on request, perhaps more than once."""
        problem = Problem(where, what, why)
        if problem not in self._known:
            self._known.add(problem)
            self.problems.append(problem)

    def doubt(self, where: str, why: Reason) -> None:
        """Add a problem with something unreadable that may matter for a deadlock."""
        known = len(self.problems)
        self.problem(where, "unreadable", why)
        if len(self.problems) > known:
            self.doubts.append(because("doubt", where=where, why=why))

    def fail(self, what: str, hint: str, *, reported: bool = False) -> None:
        """Mark the report as incomplete.

        :param reported: whether a problem says so already.
        """
        self.incomplete = self.incomplete or GdbextError(what, hint)
        if not reported:
            self.problem("target", "not applicable", because("text", text=what))
