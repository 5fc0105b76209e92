"""All locks of a target with their waiters and holders, and what each thread holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gdbext.holders.owners import HolderContext, find_holders, holder_context
from gdbext.model import Hold, Lock, Waiter
from gdbext.record import record
from gdbext.threads.gone import GoneOwners
from gdbext.waits.context import Context
from gdbext.waits.gil import view_gil
from gdbext.waits.native import read_robust_mutexes
from gdbext.waits.seen import SeenLock, SeenWait, merge

#: How many of the waiters of an object's lock are asked what they call the object.
_MAX_LOOKS = 4


@record
class FoundLocks:
    """The locks that threads wait for or hold, by id, and by the thread's number what each thread holds."""

    locks: Mapping[str, Lock]
    holds: Mapping[int, Sequence[Hold]]
    context: HolderContext

    def find_more(self, view: SeenLock) -> Lock:
        """A lock that no thread waits for, with its holders."""
        return find_holders(view, (), self.context)


def find_locks(context: Context, waits: Mapping[int, SeenWait], gone: GoneOwners) -> FoundLocks:
    """Find the holders of each lock that a thread waits for, and the locks that threads are known to hold anyway."""
    waiters: dict[str, list[Waiter]] = {}
    ways: dict[str, dict[SeenLock, None]] = {}
    for view in [*context.parked.held(), *read_robust_mutexes(context)]:
        ways.setdefault(view.id, {})[view] = None
    for number, wait in waits.items():
        if wait.lock is not None:
            ways.setdefault(wait.lock.id, {})[wait.lock] = None
            waiters.setdefault(wait.lock.id, []).append(Waiter(number, wait.mode))
    for gil in context.python.gils:
        view = view_gil(gil)
        ways[view.id] = {view: None}
    views = [merge(list(each)) for each in ways.values()]
    finding = holder_context(context, gone, views, waits)
    locks = {view.id: _named(find_holders(view, waiters.get(view.id, ()), finding), context) for view in views}
    holds: dict[int, list[Hold]] = {}
    for lock in locks.values():
        for holder in lock.holders:
            holds.setdefault(holder.thread, []).append(Hold(
                lock.id, holder.mode, holder.evidence, holder.why, holder.taken_at))
    return FoundLocks(locks, holds, finding)


def _named(lock: Lock, context: Context) -> Lock:
    """A lock of an object as the frames of its waiters and holders call the object."""
    if not lock.waiters or lock.address not in context.parked.objects:
        return lock
    at, kind = context.parked.objects[lock.address]
    threads = [*(waiter.thread for waiter in lock.waiters[:_MAX_LOOKS]), *(holder.thread for holder in lock.holders)]
    name = context.python_locks.name_of(at, threads)
    return lock if name is None else replace(lock, name=f"{name} ({kind})")
