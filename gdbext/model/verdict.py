"""What is wrong with a target, or why nothing is: one value for the whole report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gdbext.record import record

#: See docs/reading-a-report.md for what each means.
VerdictKind = Literal[
    "crash", "deadlock", "task-cycle", "orphaned-lock", "standstill", "event-loop-blocked", "blocked-behind",
    "children", "pool", "queue", "computing", "idle", "unknown"]
#: ``stuck`` does not end by itself, ``outside`` may end when something outside of the process happens, ``fine`` is no
#: hang, and ``doubt`` is not known.
Outcome = Literal["stuck", "outside", "fine", "doubt"]

OUTCOMES: Mapping[VerdictKind, Outcome] = {
    "crash": "stuck", "deadlock": "stuck", "task-cycle": "stuck", "orphaned-lock": "stuck", "standstill": "stuck",
    "event-loop-blocked": "outside", "blocked-behind": "outside", "children": "outside", "pool": "outside",
    "queue": "outside", "computing": "fine", "idle": "fine", "unknown": "doubt",
}
#: The exit status for each outcome, of the launcher and of `py-deadlocks --fail`; see docs/reference.md.
STATUS_OF_OUTCOME: Mapping[Outcome, int] = {"stuck": 1, "outside": 5, "fine": 0, "doubt": 3}
_BY_NAME: Mapping[str, Outcome] = {str(kind): outcome for kind, outcome in OUTCOMES.items()}


@record
class Verdict:
    """The verdict of a report.

    `threads` are those that it is about: the first one is the one to look at first. `behind` are further threads that
    wait for these. `tasks` are the addresses of asyncio tasks that it is about. `evidence` is None where the verdict
    is what the threads do, and rests on no inference.
    """

    kind: VerdictKind
    threads: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()
    evidence: Literal["recorded", "derived", "inferred"] | None = None

    @property
    def outcome(self) -> Outcome:
        """Whether what it describes ends by itself; ``doubt`` for a kind of a newer version."""
        return _BY_NAME.get(self.kind, "doubt")

    @property
    def ends_by_itself(self) -> bool | None:
        """Whether it may end without help; None if that is not known."""
        return {"stuck": False, "doubt": None}.get(self.outcome, True)
