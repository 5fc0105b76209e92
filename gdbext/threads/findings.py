"""What a look at a target could not find out, and what else a reader should be told."""

from __future__ import annotations

from gdbext.errors import GdbextError
from gdbext.model import Problem, ProblemKind
from gdbext.model.reasons import Reason, because


class Findings:
    """Problems and notes of one look.

    `incomplete` is set when the user must do something about it first; `doubts` are other reasons why no deadlock can
    be ruled out.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.notes: list[Reason] = []
        self.doubts: list[Reason] = []
        self.incomplete: GdbextError | None = None

    def problem(self, where: str, what: ProblemKind, why: Reason) -> None:
        """Note that something is not known; see `Problem`."""
        self.problems.append(Problem(where, what, why))

    def doubt(self, where: str, why: Reason) -> None:
        """Note that something could not be read that a deadlock may rest on."""
        self.problem(where, "unreadable", why)
        self.doubts.append(because("doubt", where=where, why=why))

    def fail(self, what: str, hint: str, *, told: bool = False) -> None:
        """Note that the report is not whole.

        :param told: a problem says so already.
        """
        self.incomplete = self.incomplete or GdbextError(what, hint)
        if not told:
            self.problem("target", "not applicable", because("text", text=what))
