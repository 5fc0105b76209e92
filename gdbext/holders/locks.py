"""All locks of a target with their waiters and holders, and what each thread holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gdbext.holders.context import HolderContext, holder_context
from gdbext.holders.owners import find_holders
from gdbext.locks.seen import SeenLock, SeenWait, merge
from gdbext.model import Hold, Lock, Waiter
from gdbext.proofs.known_code import KnownCode
from gdbext.record import record
from gdbext.threads.gone import GoneOwners
from gdbext.waits.context import Context
from gdbext.waits.gil import gil_lock
from gdbext.waits.native import read_robust_mutexes

#: Most waiters of an object's lock whose frames are searched for a name of the object.
_MAX_NAMING = 4


@record
class FoundLocks:
    """The locks that threads wait for or hold, by id; and what each thread holds, by its number."""

    locks: Mapping[str, Lock]
    holds: Mapping[int, Sequence[Hold]]
    context: HolderContext

    def find_more(self, lock: SeenLock) -> Lock:
        """Find the holders of a lock that no thread waits for."""
        return find_holders(lock, (), self.context)


def find_locks(context: Context, waits: Mapping[int, SeenWait], gone: GoneOwners,
               known_code: KnownCode) -> FoundLocks:
    """Find the holders of each lock that a thread waits for, and the other locks that threads are known to hold.

    :param known_code: what earlier snapshots of the process have found out about its code.
    """
    waiters: dict[str, list[Waiter]] = {}
    # many threads have the same value for their lock
    by_id: dict[str, dict[int, SeenLock]] = {}
    guard = context.findings.guard
    for lock in [*guard("critical sections", lambda: context.parked.held, ()),
                 *guard("robust mutexes", lambda: list(read_robust_mutexes(context)), ())]:
        by_id.setdefault(lock.id, {})[id(lock)] = lock
    for number, wait in waits.items():
        if wait.lock is not None:
            by_id.setdefault(wait.lock.id, {})[id(wait.lock)] = wait.lock
            waiters.setdefault(wait.lock.id, []).append(Waiter(number, wait.mode))
    for gil in context.python.gils:
        by_id[gil.lock] = {0: gil_lock(gil)}
    merged = [merge(list(each.values())) for each in by_id.values()]
    finding = holder_context(context, gone, merged, waits, known_code)
    locks = {lock.id: _with_name_of_object(lock, find_holders(lock, waiters.get(lock.id, ()), finding), context)
             for lock in merged}
    holds: dict[int, list[Hold]] = {}
    for found in locks.values():
        # a worker has none of the calls in the queue of its pool
        for holder in found.holders if not found.is_queued_call else ():
            holds.setdefault(holder.thread, []).append(Hold(
                found.id, holder.mode, holder.evidence, holder.why, holder.taken_at))
    return FoundLocks(locks, holds, finding)


def _with_name_of_object(seen: SeenLock, lock: Lock, context: Context) -> Lock:
    """The lock of an object, with the name of the object in the frames of waiters and holders."""
    if not lock.waiters or seen.guards is None:
        return lock
    at, kind = seen.guards
    threads = [*(waiter.thread for waiter in lock.waiters[:_MAX_NAMING]), *(holder.thread for holder in lock.holders)]
    name = context.findings.guard("names of objects", lambda: context.python_locks.find_name(at, threads), None,
                                  doubt=False)
    return lock if name is None else replace(lock, name=f"{name} ({kind})")
