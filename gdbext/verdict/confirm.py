"""Two snapshots of one process: which deadlocks of the first remain in the second. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gdbext.model import Deadlock, Report
from gdbext.model.kinds import kind_of
from gdbext.model.reasons import because

#: A deadlock by what does not change between two looks, which GDB's numbers of threads do.
_Key = tuple["frozenset[int]", "frozenset[tuple[int, str, int | None]]"]


def _key(report: Report, deadlock: Deadlock) -> _Key:
    lwps = {thread.number: thread.lwp for thread in report.threads}
    return (frozenset(lwps[number] for number in deadlock.threads),
            frozenset((lwps[edge.waiter], edge.lock, lwps[edge.holder] if edge.holder is not None else None)
                      for edge in deadlock.edges))


def sleepers(report: Report) -> list[int]:
    """LWPs of the deadlocked threads that do not wake up while they wait."""
    woken = {lock.id for lock in report.locks if kind_of(lock.kind).waiters_wake}
    involved = {number for deadlock in report.deadlocks for number in deadlock.threads}
    return [thread.lwp for thread in report.threads
            if thread.number in involved and thread.waits is not None and thread.waits.lock not in woken]


def what_stayed(first: Report, second: Report, moved: Collection[int]) -> Report:
    """The second report without the deadlocks that the first does not have, or one of whose threads has run.

    :param moved: LWPs that have run between the snapshots.
    """
    before = {_key(first, deadlock) for deadlock in first.deadlocks}
    stayed, gone = [], 0
    for deadlock in second.deadlocks:
        key = _key(second, deadlock)
        if key in before and not key[0].intersection(moved):
            stayed.append(deadlock)
        else:
            gone += 1
    dropped = max(len(first.deadlocks) - len(stayed), gone)
    notes = second.notes
    if dropped:
        notes += (because("deadlocks-dropped", count=dropped),)
    return replace(second, deadlocks=tuple(stayed), notes=notes)
