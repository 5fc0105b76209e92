"""Which threads hold a lock: what it records, what Python's frames show, or what circumstance tells."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Optional

from gdbext.holders.inferred import HolderFinder
from gdbext.holders.python_locks import PythonFrames, inside_with, known_by_frames, python_owner
from gdbext.model import Lock, Waiter
from gdbext.model.kinds import FUTEX, kind_of
from gdbext.model.reasons import because
from gdbext.record import record
from gdbext.threads.gone import GoneOwners
from gdbext.threads.threads import Threads
from gdbext.waits.context import Context
from gdbext.waits.parked import ParkedWaits
from gdbext.waits.seen import SeenLock, SeenWait, held_by


@record
class HolderContext:
    """What the ways of finding holders look at: the threads with their waits, and what reads the rest."""

    waits: Context
    gone: GoneOwners
    frames: PythonFrames
    finder: HolderFinder

    @property
    def threads(self) -> Threads:
        """The target's threads."""
        return self.waits.threads

    @property
    def parked(self) -> ParkedWaits:
        """Where threads are parked."""
        return self.waits.parked


def holder_context(context: Context, gone: GoneOwners, locks: Collection[SeenLock],
                   waits: Mapping[int, SeenWait]) -> HolderContext:
    """Prepare to find holders.

    :param locks: those whose holders will be looked for: each stack is searched for all of them at once.
    """
    return HolderContext(
        context, gone,
        PythonFrames(context.threads, context.python_locks, [lock for lock in locks if lock.python is not None]),
        HolderFinder(context.target, context.code, context.threads, context.sites, context.library.modules, locks,
                     {number: wait.lock.id for number, wait in waits.items() if wait.lock is not None}))


#: Gives a lock with its holders, or with what is known instead; None to let the next way try.
Way = Callable[[SeenLock, Collection[int], HolderContext], Optional[SeenLock]]


def named(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The threads that the lock itself names, as it was recognised."""
    return lock if lock.holders else None


def recorded_tid(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The thread whose TID the lock records; or what happened to that thread, or which process has it."""
    threads = context.threads
    if lock.owner is None:
        return None
    if lock.owner in threads.number_of_tid:
        return replace(lock, holders=held_by((threads.number_of_tid[lock.owner],)))
    if lock.elsewhere and not _is_private(context, lock.address):
        return replace(lock, foreign_owner=lock.owner, why=because("foreign-owner", tid=lock.owner))
    orphan, evidence, why = context.gone.by_tid(lock.owner)
    first_waits = len(threads) == 1 or threads.first in waiters
    if (orphan is not None and lock.owner < threads.process_tid and not first_waits
            and _may_be_first(context, lock.owner)):
        why = because("owner-called-fork", tid=lock.owner)
        return replace(lock, candidates=(threads.first,), orphan_evidence=evidence, why=why)
    return replace(lock, orphan=orphan, orphan_evidence=evidence, why=why)


def recorded_descriptor(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """What happened to the thread whose descriptor the lock records."""
    if lock.owner_descriptor is None:
        return None
    orphan, evidence, why = context.gone.by_descriptor(lock.owner_descriptor)
    return replace(lock, orphan=orphan, orphan_evidence=evidence, why=why)


def by_circumstance(lock: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The threads that stacks and registers single out."""
    return context.finder.find(lock, waiters) if lock.find_holders is not None else None


WAYS: tuple[Way, ...] = (named, recorded_tid, recorded_descriptor, python_owner, inside_with, known_by_frames,
                         by_circumstance)


def find_holders(lock: SeenLock, waiters: Sequence[Waiter], context: HolderContext) -> Lock:
    """A lock with its name, its waiters and its holders, as far as any way finds them."""
    numbers = [waiter.thread for waiter in waiters]
    found = next(filter(None, (way(lock, numbers, context) for way in WAYS)), lock)
    return replace(found, name=_name(found, numbers, context)).as_lock(waiters)


def _may_be_first(context: HolderContext, owner: int) -> bool:
    """Whether an owner that fork has left behind may be the thread that called fork.

    That one lives on here as the first thread, under another number, and may unlock what it has locked. Its old
    number is known only where it was the first thread of its process too, and that process is still the parent.
    """
    proc = context.waits.target.proc
    if proc is None or context.gone.first_was_started() is not False:
        return True
    first, others = proc.parent_threads()
    return owner == first or owner not in others


def _is_private(context: HolderContext, address: int) -> bool:
    """Whether nobody but this process can have a lock, as far as /proc tells."""
    proc = context.waits.target.proc
    return proc is not None and proc.is_private(address)


def _name(view: SeenLock, waiters: Collection[int], context: HolderContext) -> str | None:
    """The variable that a lock is, or the library that uses it."""
    if view.name is not None or view.python is not None or view.number is not None:
        return view.name
    code, sites = context.waits.code, context.waits.sites
    module = code.module(view.address)
    if module is not None:
        symbol = code.symbol(view.address).function
        if symbol is None and view.kind == FUTEX and any(module is part for part in context.waits.library.modules):
            # a lock of the C library's own: the function that takes it tells what it is for
            functions = sites.site(context.threads[next(iter(waiters))].native(code)).functions
            symbol = f"{functions[-1]}()" if functions else None
        return f"{symbol} in {module.name}" if symbol else f"in {module.name}"
    if kind_of(view.kind).ends_thread:
        return None
    for waiter in waiters:
        native = context.threads[waiter].native(code)
        caller = sites.site(native).caller
        module = code.module(native[caller][0]) if caller is not None else None
        if module is not None:
            return f"in {module.name}"
    return None
