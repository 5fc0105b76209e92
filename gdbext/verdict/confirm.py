"""Two snapshots of one process: which deadlocks of the first remain in the second. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gdbext.model import Deadlock, Report
from gdbext.model.kinds import kind_of
from gdbext.model.reasons import because

#: What identifies a deadlock in two snapshots; GDB's thread numbers may change in between.
_Key = tuple["frozenset[int]", "frozenset[tuple[int, str, int | None]]"]


def _key(report: Report, deadlock: Deadlock) -> _Key:
    lwps = {thread.number: thread.lwp for thread in report.threads}
    return (frozenset(lwps[number] for number in deadlock.threads),
            frozenset((lwps[edge.waiter], edge.lock, lwps[edge.holder] if edge.holder is not None else None)
                      for edge in deadlock.edges))


def sleepers(report: Report) -> list[int]:
    """LWPs of the deadlocked threads that do not wake up while they wait."""
    woken = {lock.id for lock in report.locks if kind_of(lock.kind).waiters == "wake"}
    involved = {number for deadlock in report.deadlocks for number in deadlock.threads}
    return [thread.lwp for thread in report.threads
            if thread.number in involved and thread.waits is not None and thread.waits.lock not in woken]


def what_stayed(first: Report, second: Report, moved: Collection[int]) -> Report:
    """The second report without the deadlocks that the first does not have, or one of whose threads has run.

    :param moved: LWPs that have run between the snapshots.
    """
    before = {_key(first, deadlock) for deadlock in first.deadlocks}
    stayed = tuple(deadlock for deadlock in second.deadlocks
                   if (key := _key(second, deadlock)) in before and key[0].isdisjoint(moved))
    dropped = max(len(first.deadlocks), len(second.deadlocks)) - len(stayed)
    notes = (*second.notes, because("deadlocks-dropped", count=dropped)) if dropped else second.notes
    return replace(second, deadlocks=stayed, notes=notes)
