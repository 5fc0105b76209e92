"""Waits for native locks: threads that sleep on a futex word or spin. Robust mutexes that threads hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gdbext.errors import GdbextError
from gdbext.glibc.mutex import decode_mutex
from gdbext.glibc.robust import iter_robust_mutexes
from gdbext.model import INFERRED, RECORDED, Evidence
from gdbext.model.kinds import CONDVAR, FUTEX, SEMAPHORE, kind_of
from gdbext.model.reasons import because_of
from gdbext.runtimes.names import public_name
from gdbext.threads.threads import SeenThread
from gdbext.waits.allocator import allocator_lock
from gdbext.waits.lock_kinds import mutex_lock, recognise, spin_lock, unknown
from gdbext.waits.numba_queue import find_queue_wait
from gdbext.waits.seen import SeenLock, SeenWait, for_purpose

if TYPE_CHECKING:
    from gdbext.waits.context import Context

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
        if context.words is None:
            lock = unknown(futex, site)
        else:
            lock = (context.openmp.find_lock(seen, futex) or context.qt.find_lock(seen, futex)
                    or context.rust.find_lock(seen, futex) or context.absl.find_lock(seen, futex)
                    or context.tbb.find_lock(seen, futex)
                    or allocator_lock(seen, futex, context)
                    or recognise(context.words, futex, site))
            if lock.kind == CONDVAR:
                lock = (context.qt.find_thread_end(seen, lock.address)
                        or context.qt.find_rwlock(seen, lock.address)
                        or context.java.find_lock(seen, lock.address) or lock)
            if lock.kind == CONDVAR:
                lock = _of_pool(seen, lock, context)
        if lock.elsewhere and lock.kind in ANYONE_WAKES and context.is_private(futex.address):
            # the operation is for shared memory, as that of std::future always is
            lock = replace(lock, elsewhere=False)
        context.locks[key] = lock
    # a lock without a recorded owner does not record an orphan either
    evidence: Evidence = INFERRED if lock.orphan and not kind_of(lock.kind).records_owner else RECORDED
    return SeenWait(None, lock, futex.timed and not lock.repeats, why=lock.why if evidence == INFERRED else None,
                    mode=lock.mode, evidence=evidence)


def _of_pool(seen: SeenThread, event: SeenLock, context: Context) -> SeenLock:
    """What a thread of a library's pool waits for that sleeps on a condition variable; the same for any other one."""
    purpose = context.openmp.describe_condvar_wait(seen)
    if purpose is not None:
        return for_purpose(event, purpose)
    layouts = context.library.layouts
    if layouts is None:
        return event
    return find_queue_wait(context.memory, layouts, context.code, context.sites, seen, event) or event


def gpu_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's wait inside of the driver of a GPU."""
    reason = context.gpu.describe_wait(seen)
    wait = futex_wait(seen, context) if reason is not None and seen.futex is not None else None
    # a thread of the process may have a lock of the driver
    is_lock = wait is not None and wait.lock is not None and wait.lock.kind not in ANYONE_WAKES
    return SeenWait(reason) if reason is not None and not is_lock else wait


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
