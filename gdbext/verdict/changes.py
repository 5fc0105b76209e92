"""What has changed between two reports on one process, and whether the second proves the hang of the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gdbext.model import Lock, Report, Thread
from gdbext.model.kinds import GIL
from gdbext.model.verdict import Verdict
from gdbext.record import record
from gdbext.verdict.judge import verdict_of

#: ``proven``: the second report shows the same hang, and none of its threads has run. ``lasts``: the same, but the
#: verdict leaves open whether it ends. ``ran``: the same verdict, but a thread of it has run. ``unknown``: the same
#: verdict, and it is not known whether its threads have run. ``other``: another verdict. ``fine``: no hang in either.
Proof = Literal["proven", "lasts", "ran", "unknown", "other", "fine"]
#: How exactly it is known when a thread has run, in seconds: the times of reports are whole seconds.
_EXACT = 1.5


@record
class Pair:
    """A thread in both reports. `ran` says whether it has run in between, None if that is not known."""

    before: Thread
    after: Thread
    ran: bool | None

    @property
    def moved(self) -> bool:
        """Whether it is at another place, or waits for something else."""
        return self.before.stack != self.after.stack or _awaited(self.before) != _awaited(self.after)


@record
class Changes:
    """The difference between two reports on one process.

    `seconds` is the time between them, None if it is not known. `lasted` are the pairs that wait for the same in both
    and have not run in between. `handed` are the locks whose holders differ, as they were before and after. `new` are
    threads of the second report, `gone` threads of the first.
    """

    before: Report
    after: Report
    seconds: float | None
    pairs: tuple[Pair, ...]
    new: tuple[Thread, ...]
    gone: tuple[Thread, ...]
    handed: tuple[tuple[Lock, Lock], ...]
    lasted: tuple[Pair, ...]
    proof: Proof


def is_same_process(one: Report, other: Report) -> bool:
    """Whether two reports may be about the same process."""
    first, second = one.target, other.target
    return (first.pid, first.executable) == (second.pid, second.executable) and (
        first.host is None or second.host is None or first.host == second.host)


def compare(one: Report, other: Report) -> Changes:
    """Compare two reports on one process; the earlier one counts as the first."""
    before, after = one, other
    if one.target.time is not None and other.target.time is not None and other.target.time < one.target.time:
        before, after = other, one
    seconds = (after.target.time - before.target.time
               if before.target.time is not None and after.target.time is not None else None)
    earlier = {_identity(thread): thread for thread in before.threads}
    later = {_identity(thread): thread for thread in after.threads}
    pairs = {key: Pair(thread, later[key], _has_run(later[key], seconds))
             for key, thread in earlier.items() if key in later}
    locks = {lock.id: lock for lock in before.locks}
    handed = tuple([(locks[lock.id], lock) for lock in after.locks if lock.id in locks and lock.kind != GIL
                    and _holders(before, locks[lock.id]) != _holders(after, lock)])
    unmoved = {key for key, pair in pairs.items() if pair.ran is False}
    # a thread that waits for the GIL wakes every 5 ms; it has not had the GIL if the holder has not run
    unmoved |= {key for key, pair in pairs.items() if _waits_for_gil_of(pair, pairs, before, after)}
    lasted = tuple([pair for key, pair in pairs.items() if key in unmoved and _awaited(pair.before) is not None
                    and _awaited(pair.before) == _awaited(pair.after)])
    return Changes(before, after, seconds, tuple(pairs.values()),
                   tuple([thread for key, thread in later.items() if key not in earlier]),
                   tuple([thread for key, thread in earlier.items() if key not in later]), handed, lasted,
                   _proof(before, after, pairs, unmoved))


_Key = tuple[int, "int | None"]


def _identity(thread: Thread) -> _Key:
    """What identifies a thread in reports on one process: a later thread may have its LWP, but rarely both."""
    return thread.lwp, thread.tstate


def _has_run(after: Thread, seconds: float | None) -> bool | None:
    if after.status == "running":
        return True
    if after.since is None or seconds is None or seconds <= 2 * _EXACT:
        return None
    return after.since < seconds - _EXACT


def _awaited(thread: Thread) -> object:
    """What a thread waits for; None if it does not wait."""
    return thread.waits.lock if thread.waits is not None else thread.blocked_on


def _holders(report: Report, lock: Lock) -> set[_Key]:
    found = [report.thread(holder.thread) for holder in lock.holders]
    return {_identity(thread) for thread in found if thread is not None}


def _waits_for_gil_of(pair: Pair, pairs: Mapping[_Key, Pair], before: Report, after: Report) -> bool:
    """Whether a thread waits in both reports for a GIL whose holder has not run in between."""
    name = pair.before.waits.lock if pair.before.waits is not None else None
    first, second = (report.lock(name) if name is not None else None for report in (before, after))
    if first is None or second is None or first.kind != GIL or _awaited(pair.after) != name:
        return False
    holders = _holders(before, first)
    return bool(holders) and holders == _holders(after, second) and all(
        key in pairs and pairs[key].ran is False for key in holders)


def _proof(before: Report, after: Report, pairs: Mapping[_Key, Pair], unmoved: set[_Key]) -> Proof:
    first, second = verdict_of(before), verdict_of(after)
    if first.outcome == second.outcome == "fine":
        return "fine"
    if first.kind != second.kind or _is_about(before, first) != _is_about(after, second):
        return "other"
    if second.kind in ("task-cycle", "greenlet-cycle"):  # the threads of their loops may run other tasks
        return "proven"
    concerned = _threads(after, second)
    if not concerned or any(key not in unmoved and (key not in pairs or pairs[key].ran is None) for key in concerned):
        return "unknown"
    if not concerned <= unmoved:
        return "ran"
    return "proven" if second.outcome == "stuck" and _edges(before) == _edges(after) else "lasts"


def _threads(report: Report, verdict: Verdict) -> set[_Key]:
    return {_identity(thread) for thread in report.threads if thread.number in verdict.threads}


def _is_about(report: Report, verdict: Verdict) -> tuple[set[_Key], set[int], set[int]]:
    """The threads of a verdict, or its tasks or greenlets if it is about a cycle of these."""
    if verdict.kind in ("task-cycle", "greenlet-cycle"):
        return set(), set(verdict.tasks), set(verdict.greenlets)
    return _threads(report, verdict), set(), set()


def _edges(report: Report) -> set[tuple[object, ...]]:
    """Which thread waits for which lock and holder, in all deadlocks."""
    names = {thread.number: _identity(thread) for thread in report.threads}
    return {(names.get(edge.waiter), edge.lock, names.get(edge.holder) if edge.holder is not None else None)
            for deadlock in report.deadlocks for edge in deadlock.edges}
