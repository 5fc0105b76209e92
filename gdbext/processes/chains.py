"""Which processes others wait for in the end, and which are at rest: a function of their reports. Pure.

A process may wait for another one, which waits for a third. The one at the end of such a chain is the cause, or a
circle is. A chain whose end computes goes on. One that ends at a process at rest is at rest itself if each process of
it waits for its next work: a worker that waits for a request as well as a server that has none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gdbext.model import Report
from gdbext.model.reasons import owes_answer
from gdbext.record import record
from gdbext.verdict.judge import awaited_processes, takes_next, verdict_of
from gdbext.worklist import walk

#: How long any wait of a process at work may be, in seconds.
_MOMENT = 1.0
#: After a pause of so many seconds, all threads may have run for the report only.
_HELD = 0.1


@record
class Chains:
    """The waits of processes for each other, by PID.

    `needs` has the processes of which one has to act, for each process that waits. Those `at_rest` wait for work. Those
    of `going_on` compute, or have run a moment ago, or wait for such a process.
    """

    needs: Mapping[int, tuple[int, ...]]
    at_rest: frozenset[int]
    going_on: frozenset[int]

    def ends(self, among: Collection[int]) -> list[tuple[int, ...]]:
        """The processes at the ends of all chains, most awaited first: each alone, or several that wait in a circle.

        :param among: the processes whose waits count.
        """
        reached = {pid: self._behind(pid, among) for pid in among}
        ends = dict.fromkeys(tuple(sorted({pid, *others})) for pid, others in reached.items()
                             if all(pid in reached[other] for other in others))
        waiting = {end: sum(end[0] in others for others in reached.values()) for end in ends}
        return sorted((end for end in ends if waiting[end]), key=lambda end: (-waiting[end], end))

    def behind(self, end: Collection[int], among: Collection[int]) -> list[int]:
        """The processes that wait for one of some processes, directly or not."""
        return sorted(pid for pid in among if pid not in end and not self._behind(pid, among).isdisjoint(end))

    def steps(self, pid: int, ends: Collection[int]) -> int:
        """How many waits lead from a process to one of some processes; 0 if none do."""
        reached, count = {pid}, 0
        while reached and reached.isdisjoint(ends) and count < len(self.needs):
            reached, count = {other for each in reached for other in self.needs.get(each, ())}, count + 1
        return count if not reached.isdisjoint(ends) else 0

    def _behind(self, pid: int, among: Collection[int]) -> set[int]:
        """The processes that one waits for, directly or not."""
        return set(walk(self._needed(pid, among), lambda other: self._needed(other, among)))

    def _needed(self, pid: int, among: Collection[int]) -> list[int]:
        return [other for other in self.needs.get(pid, ()) if other in among]


def find_chains(reports: Mapping[int, Report | None], circles: Sequence[Collection[int]] = ()) -> Chains:
    """How processes wait for each other.

    :param reports: the report of each process by PID, None if it could not be read.
    :param circles: the processes of each deadlock between processes.
    """
    stuck = {pid: circle for circle in circles for pid in circle}
    known = {pid: report for pid, report in reports.items() if report is not None and pid not in stuck}
    needs = {pid: awaited_processes(report) for pid, report in known.items()}

    def fed(resting: Collection[int]) -> set[int]:
        """Those of some processes that somebody may give work to: an idle one, or one from outside."""
        first = {pid for pid in resting if pid in idle or _is_open(known[pid])}
        return set(walk(first, lambda pid: [other for other in resting if pid in needs[other]]))

    never = {*stuck, *(pid for pid, report in known.items() if verdict_of(report).outcome == "stuck")}
    behind = set(walk(never, lambda pid: [other for other in known if pid in needs[other]]))
    going_on = {pid for pid, report in known.items()
                if verdict_of(report).kind == "computing" or pid not in behind and _has_moved(report)}
    idle = {pid for pid, report in known.items() if verdict_of(report).outcome == "fine"} - going_on
    while True:
        more = {pid for pid, others in needs.items() if not going_on.isdisjoint(others)} - going_on
        if not more:
            break
        going_on |= more
    resting = idle | {pid for pid, report in known.items() if needs[pid] and takes_next(report)}
    while True:
        at_rest = {pid for pid in resting & fed(resting) if resting.issuperset(needs[pid])}
        if at_rest == resting:
            break
        resting = at_rest
    needs.update({pid: tuple(sorted({*circle} - {pid})) for pid, circle in stuck.items()})
    return Chains({pid: others for pid, others in needs.items() if others}, frozenset(resting), frozenset(going_on))


def _has_moved(report: Report) -> bool:
    """Whether the threads that the verdict is about wait since a moment only."""
    verdict = verdict_of(report)
    threads = [thread for thread in report.threads if thread.number in verdict.threads]
    locks = [report.lock(thread.waits.lock) for thread in threads if thread.waits is not None]
    if (report.target.paused or 0.0) >= _HELD:
        return False
    # one that polls runs again and again, and so does a library that asks again for an answer
    return verdict.kind in ("blocked-behind", "children") and bool(threads) and all(
        thread.since is not None and thread.since < _MOMENT for thread in threads) and not any(
            lock is not None and owes_answer(lock.why) for lock in locks)


def _is_open(report: Report) -> bool:
    """Whether somebody outside may give work to the threads that the verdict is about."""
    verdict = verdict_of(report)
    return any(ender.what == "outside" for thread in report.threads if thread.number in verdict.threads
               for ender in thread.ended_by)
