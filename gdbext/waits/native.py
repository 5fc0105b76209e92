"""Waits for native locks: threads that sleep on a futex word or spin. Robust mutexes that threads hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gdbext.errors import GdbextError
from gdbext.glibc.futex import FutexWait
from gdbext.glibc.mutex import decode_mutex
from gdbext.glibc.robust import iter_robust_mutexes
from gdbext.locks.seen import Orphaned, SeenLock, SeenWait
from gdbext.model import INFERRED, RECORDED, Evidence
from gdbext.model.kinds import CONDVAR, FUTEX, SEMAPHORE, kind_of
from gdbext.model.reasons import because, because_of
from gdbext.runtimes.names import public_name
from gdbext.threads.site import Site
from gdbext.threads.threads import SeenThread
from gdbext.waits import musl_kinds
from gdbext.waits.context import Context
from gdbext.waits.lock_kinds import mutex_lock, recognise, spin_lock, unknown

#: Kinds without owner that any thread may release which can access the word.
ANYONE_WAKES = (CONDVAR, SEMAPHORE, FUTEX)
_SPINNING = ("pthread_spin_lock",)


def futex_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's sleep on a futex word."""
    futex = seen.futex
    if futex is None or context.parked.is_over(seen):
        return None
    site = context.sites.site(seen.native(context.code))
    key = (futex, site)
    lock = context.locks.get(key)
    if lock is None:
        lock = _find_lock(seen, futex, context, site)
        if lock.shared and lock.kind in ANYONE_WAKES and context.is_private(futex.address):
            # the operation is for shared memory, as that of std::future always is
            lock = replace(lock, shared=False)
        context.locks[key] = lock
    # a lock without a recorded owner does not record an orphan either
    is_inferred = isinstance(lock.held, Orphaned) and not kind_of(lock.kind).records_owner
    evidence: Evidence = INFERRED if is_inferred else RECORDED
    return SeenWait(None, lock, futex.timed and not lock.repeats, why=lock.why if evidence == INFERRED else None,
                    mode=lock.mode, evidence=evidence)


def _find_lock(seen: SeenThread, futex: FutexWait, context: Context, site: Site) -> SeenLock:
    """The lock or event of a thread that sleeps on a futex word; that of a library if the thread sleeps in one."""
    lock = unknown(futex, site)
    if context.words is not None:
        for library in context.libraries:
            found = library.find_lock(seen, futex)
            if found is not None:
                return found
        lock = recognise(context.words, futex, site)
    elif context.musl is not None:
        lock = recognise(context.musl, futex, site, musl_kinds.KINDS, musl_kinds.NAMED)
    for library in context.libraries if lock.kind == CONDVAR else ():
        found = library.find_purpose(seen, lock)
        if found is not None:
            return found
    for library in context.libraries if lock.kind == FUTEX else ():
        term = library.describe_unknown(futex)
        if term is not None:
            return replace(lock, why=because("records-no-owner", what=term))
    return lock


def outside_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's wait inside of a library for something outside of the process, or for what it tries to take again."""
    found = next(filter(None, (library.find_wait(seen) for library in context.libraries)), None)
    wait = futex_wait(seen, context) if found is not None and seen.futex is not None else None
    # a thread of the process may have a lock of the library
    is_lock = wait is not None and wait.lock is not None and wait.lock.kind not in ANYONE_WAKES
    return wait if is_lock else found


def spinning_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's wait in a loop for a spin lock."""
    if seen.futex is not None or seen.unavailable is not None or seen.call is not None:
        return None
    module = context.code.module(seen.pc)
    if not any(module is part for part in context.library.modules):
        return None
    function = context.code.symbol(seen.pc).function
    if function is None or public_name(function) not in _SPINNING:
        return None
    return SeenWait(None, spin_lock(seen.registers.get(seen.cpu.ARGUMENTS[0], 0)))


def read_robust_mutexes(context: Context) -> Iterator[SeenLock]:
    """The robust mutexes that threads hold, from the list that each thread has of them."""
    layouts = context.library.layouts
    for seen in context.threads:
        if not seen.pthread or layouts is None:
            continue
        try:
            for address in iter_robust_mutexes(context.memory, layouts, seen.pthread):
                state = decode_mutex(context.memory, layouts, address)
                if state.plausible and state.locked:
                    yield mutex_lock(state)
        except GdbextError as error:
            context.findings.problem(f"thread {seen.number}", "unreadable", because_of(error, "robust-list"))
