"""Finds the holders of a lock: in the lock itself, in Python frames, or from stacks and registers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Optional

from gdbext.holders.context import HolderContext
from gdbext.holders.file_users import using_file
from gdbext.holders.pool_jobs import threads_of_pool
from gdbext.holders.python_holders import inside_suspended, inside_with, known_by_frames, python_owner
from gdbext.locks.seen import (
    FREE,
    Elsewhere,
    Known,
    NotRecorded,
    RecordedDescriptor,
    RecordedTid,
    SeenLock,
    held_by,
    may_be_held_by,
    with_owner_gone,
)
from gdbext.model import INFERRED, Lock, Waiter
from gdbext.model.kinds import FUTEX, POOL_JOB, kind_of
from gdbext.model.reasons import because, joined, parts
from gdbext.runtimes.names import without_hashes

#: A way to find holders. It returns the lock with its holders or a reason, or None so that the next way is tried.
Way = Callable[[SeenLock, Collection[int], HolderContext], Optional[SeenLock]]


def named(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The holders that were found when the lock was recognised."""
    return lock if lock.holders else None


def recorded_tid(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The thread whose TID the lock records; or what happened to that thread."""
    threads = context.waits.threads
    if not isinstance(lock.held, RecordedTid):
        return None
    owner = lock.held.tid
    if owner in threads.number_of_tid:
        return replace(lock, held=held_by((threads.number_of_tid[owner],)))
    proc = context.waits.target.proc
    # memory that no other process shares
    is_private = proc is not None and proc.is_private(lock.address)
    if lock.shared and not is_private:
        return replace(lock, held=Elsewhere(owner), why=because("foreign-owner", tid=owner))
    gone = context.gone.by_tid(owner)
    first_waits = len(threads) == 1 or threads.first in waiters
    if (gone.orphan is not None and owner < threads.process_tid and not first_waits
            and _may_be_first(context, owner)):
        return replace(lock, held=may_be_held_by((threads.first,)), why=because("owner-called-fork", tid=owner))
    return with_owner_gone(lock, gone)


def recorded_descriptor(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """What happened to the thread whose descriptor the lock records."""
    if not isinstance(lock.held, RecordedDescriptor):
        return None
    return with_owner_gone(lock, context.gone.by_descriptor(lock.held.pthread))


def by_machine_code(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The thread whose machine code proves that it holds a lock that records no owner."""
    is_known = (lock.state == FREE or not isinstance(lock.held, (Known, NotRecorded))
                or any(holder.evidence != INFERRED for holder in lock.holders))
    return context.finder.prove(lock, waiters) if waiters and not is_known and not lock.readers else None


def making_result(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The threads that may make the result of a call that was submitted to a pool."""
    return context.results.find(lock, waiters)


def running_job(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The threads that may finish the job of a thread pool.

    If a thread of several is idle or runs, it may be the one that finishes the job, so none of them is named.
    """
    if lock.kind != POOL_JOB:
        return None
    waits = context.waits
    found = threads_of_pool(waits.threads, waits.code, waits.sites, waiters, context.waited)
    if found is None or not found.threads or len(found.threads) > 1 and any(
            number not in context.waited or context.waited[number].kind != POOL_JOB
            and kind_of(context.waited[number].kind).is_event for number in found.threads):
        return lock
    why = because("threads-in-file", file=found.file)
    return replace(lock, held=held_by(found.threads, INFERRED, why), why=joined([*parts(lock.why), why]))


def of_library(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The holders of a lock of a library that has a way of its own to find them."""
    library = context.libraries.get(lock.kind)
    return library.find(lock, waiters) if library is not None else None


def by_circumstance(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The threads that stacks and registers show."""
    return context.finder.find(lock, waiters)


WAYS: tuple[Way, ...] = (by_machine_code, named, recorded_tid, recorded_descriptor, making_result, python_owner,
                         inside_with, inside_suspended, known_by_frames, of_library, using_file, running_job,
                         by_circumstance)


def find_holders(lock: SeenLock, waiters: Sequence[Waiter], context: HolderContext) -> Lock:
    """Find the name and the holders of a lock."""
    numbers = [waiter.thread for waiter in waiters]
    guard = context.waits.findings.guard
    # a way rests on the failure of those before it: if one cannot be tried, the rest is not
    found = guard("holders", lambda: next(filter(None, (way(lock, numbers, context) for way in WAYS)), lock), lock)
    name = guard("names of locks", lambda: _name(found, numbers, context), lock.name, doubt=False)
    return replace(found, name=name).as_lock(waiters)


def _may_be_first(context: HolderContext, owner: int) -> bool:
    """Whether an owner that fork has left behind may be the thread that called fork.

    That thread is the first thread of this process now, with another TID, and may still unlock what it has locked. Its
    old TID is known only if it was the first thread of its process, and that process is still the parent.
    """
    proc = context.waits.target.proc
    if proc is None or context.gone.first_was_started() is not False:
        return True
    first, others = proc.parent_threads()
    return owner == first or owner not in others


def _name(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> str | None:
    if lock.name is not None or lock.python is not None or lock.number is not None:
        return lock.name
    code, sites = context.waits.code, context.waits.sites
    module = code.module(lock.address)
    if module is not None:
        symbol = code.symbol(lock.address).function
        if symbol is None and lock.kind == FUTEX and any(module is part for part in context.waits.library.modules):
            # an internal lock of the C library: the function that takes it shows its purpose
            functions = sites.site(context.waits.threads[next(iter(waiters))].native(code)).functions
            symbol = f"{functions[-1]}()" if functions else None
        return f"{without_hashes(symbol)} in {module.name}" if symbol else f"in {module.name}"
    if kind_of(lock.kind).behaviour == "thread-end":
        return None
    for waiter in waiters:
        native = context.waits.threads[waiter].native(code)
        caller = sites.site(native).caller
        module = code.module(native[caller][0]) if caller is not None else None
        if module is not None:
            return f"in {module.name}"
    return None
