"""Explanations by locks and the threads that hold them: deadlocks, orphaned locks, locks that are held for long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gdbext.model import Deadlock, Thread, weakest
from gdbext.model.verdict import Verdict, VerdictKind
from gdbext.verdict.ended_by import FOR_A_TIME
from gdbext.verdict.explanations.results import pool
from gdbext.verdict.scene import Scene, continues, time_left

#: How long a wait lasts that does not end soon, in seconds.
_LONG = 5.0


def _of_deadlocks(kind: VerdictKind, deadlocks: Iterable[Deadlock]) -> Verdict | None:
    found = list(deadlocks)
    if not found:
        return None
    threads = dict.fromkeys(number for deadlock in found for number in deadlock.threads)
    behind = dict.fromkeys(number for deadlock in found for number in deadlock.stuck_behind if number not in threads)
    return Verdict(kind, tuple(threads), tuple(behind), evidence=weakest([each.evidence for each in found]))


def deadlock(scene: Scene) -> Verdict | None:
    """Threads wait in a circle for locks that they hold, or for results that they have to make."""
    found = [each for each in scene.report.deadlocks if not each.standstill and not each.owner_gone]
    return _of_deadlocks("pool" if found and all(each.of_pool for each in found) else "deadlock", found)


def orphaned_lock(scene: Scene) -> Verdict | None:
    """The owner of a lock has ended, or nothing makes a result."""
    found = [each for each in scene.report.deadlocks if each.owner_gone]
    return _of_deadlocks("no-result" if found and all(each.no_result for each in found) else "orphaned-lock", found)


def standstill(scene: Scene) -> Verdict | None:
    """All threads wait for each other, in waits that each of several threads could end."""
    found = _of_deadlocks("standstill", (each for each in scene.report.deadlocks if each.standstill))
    of_pool = pool(scene) if found is not None else None
    # which says why all threads wait, and it is as certain
    return replace(of_pool, evidence=found.evidence) if found is not None and of_pool is not None else found


def held_up(scene: Scene) -> Verdict | None:
    """A thread has a lock that others want, and it does not run: it sleeps, or waits for what may come.

    A lock that changes hands quickly is not meant. Of several such threads, the one with most others behind it.
    """
    best: Verdict | None = None
    for number, thread in scene.threads.items():
        wanted = [scene.threads[waiter] for waiter in scene.wanting.get(number, ())]
        if not wanted or thread.status == "running" or number in scene.offloaded or scene.holders(thread):
            continue
        behind = scene.behind(number)
        if len(behind) > (len(best.behind) if best is not None else 0) and _is_slow(scene, thread, wanted):
            best = Verdict("blocked-behind", (number,), tuple(behind))
    return best


def _is_slow(scene: Scene, holder: Thread, wanted: Iterable[Thread]) -> bool:
    """Whether a lock is held for so long that its holder's wait is the reason why others do not run."""
    left, reason = time_left(holder), holder.blocked_on.code if holder.blocked_on is not None else None
    if left is not None and left >= _LONG or any(
            waiter.since is not None and waiter.since >= _LONG for waiter in wanted):
        return True
    if left is None and holder.status == "blocked" and scene.report.target.kind == "core":
        return True  # how long it was to sleep is not known, and nobody writes a core of a program that goes on
    if not continues(holder):
        return not scene.running and (reason == "waits-for-signal" or scene.waits_outside(holder))
    if holder.polling is not None and any(scene.has_waited(waiter) for waiter in wanted):
        return True
    # no thread needs the GIL to sleep
    return holder.waits is None and reason in FOR_A_TIME and any(scene.is_requesting(waiter) for waiter in wanted)
