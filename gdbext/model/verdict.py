"""The verdict: what is wrong with a target, or that nothing is, or that this cannot be determined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gdbext.record import record

#: See docs/reading-a-report.md for what each means.
VerdictKind = Literal[
    "crash", "stopped", "deadlock", "task-cycle", "greenlet-cycle", "orphaned-lock", "no-result", "standstill",
    "event-loop-blocked", "job", "blocked-behind", "children", "pool", "queue", "polling", "computing", "idle",
    "unknown"]
#: ``stuck``: it does not end by itself. ``outside``: it may end when something outside of the process happens.
#: ``fine``: the program does not hang. ``doubt``: this cannot be determined.
Outcome = Literal["stuck", "outside", "fine", "doubt"]

OUTCOMES: Mapping[VerdictKind, Outcome] = {
    "crash": "stuck", "stopped": "outside", "deadlock": "stuck", "task-cycle": "stuck", "greenlet-cycle": "stuck",
    "orphaned-lock": "stuck", "no-result": "stuck", "standstill": "stuck", "event-loop-blocked": "outside",
    "job": "outside", "blocked-behind": "outside",
    "children": "outside", "pool": "outside", "queue": "outside", "polling": "outside", "computing": "fine",
    "idle": "fine", "unknown": "doubt",
}
#: The exit status for each outcome, of the launcher and of `py-deadlocks --fail`; see docs/reference.md.
STATUS_OF_OUTCOME: Mapping[Outcome, int] = {"stuck": 1, "outside": 5, "fine": 0, "doubt": 3}
_BY_NAME: Mapping[str, Outcome] = {str(kind): outcome for kind, outcome in OUTCOMES.items()}


@record
class Verdict:
    """The verdict of a report: its kind, what it is about, and its weakest evidence.

    `threads` contains the most important thread first. `behind` are further threads that wait for these. `tasks` and
    `greenlets` are addresses of asyncio tasks and of greenlets, the most important first. `evidence` is None if the
    verdict only says what the threads do.
    """

    kind: VerdictKind
    threads: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()
    evidence: Literal["recorded", "derived", "inferred"] | None = None
    greenlets: tuple[int, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The outcome of its kind; ``doubt`` for a kind of a newer version.

        A pool has evidence if no thread of the process can run again, so that nothing outside can help.
        """
        if self.kind == "pool" and self.evidence is not None:
            return "stuck"
        return _BY_NAME.get(self.kind, "doubt")
