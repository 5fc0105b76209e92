"""The recognisers of musl's locks: what a futex word of musl belongs to. See `lock_kinds` for the rows."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from gdbext.arch.protocol import Architecture
from gdbext.errors import GdbextError
from gdbext.glibc.futex import FUTEX_WAIT, PRIVATE, FutexWait
from gdbext.inferior.cache import read_available, read_u32
from gdbext.inferior.protocol import Memory, Target
from gdbext.locks.seen import (
    ARRIVING,
    FREE,
    READERS,
    RUNS_ONCE,
    NotRecorded,
    SeenLock,
    by_tid,
    held_by,
)
from gdbext.model import EXCLUSIVE, SHARED, Mode
from gdbext.model.reasons import because
from gdbext.musl import locks, pthread
from gdbext.record import record
from gdbext.remembered import remembered
from gdbext.threads.site import Site
from gdbext.threads.threads import Threads
from gdbext.waits import lock_kinds
from gdbext.waits.lock_kinds import Recogniser

#: How much of a stack is searched for the argument of the call that waits, in bytes.
_STACK = 2048
#: The bit of waiters in the lock of a ``FILE`` (musl 1.2.3 src/stdio/__lockfile.c, MAYBE_WAITERS).
_FILE_WAITERS = 0x40000000
#: A ``pthread_once_t`` with waiters (musl 1.2.3 src/thread/pthread_once.c).
_ONCE_WAITED_FOR = 3


@record
class Context:
    """The input of the recognisers."""

    target: Target
    cpu: Architecture
    threads: Threads

    @property
    def memory(self) -> Memory:
        """The target's memory."""
        return self.target.memory

    @remembered
    def words(self, address: int) -> Sequence[int]:
        """Words of the stacks and the registers of the threads that sleep on a futex word."""
        found: dict[int, None] = {}
        for seen in self.threads:
            if seen.futex is None or seen.futex.address != address:
                continue
            try:
                found.update(dict.fromkeys(self.target.registers(seen.ref, self.cpu.CALLEE_SAVED).values()))
            except GdbextError:
                pass
            data = read_available(self.memory, seen.sp, _STACK)
            found.update(dict.fromkeys(word for word, in struct.iter_unpack("<Q", data[:len(data) & -8])))
        return tuple(found)


def _join(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    found = pthread.pthread_of_join(context.memory, context.cpu, wait.address, wait.expected,
                                    context.threads.number_of_pthread)
    if found is None:
        return None
    number = context.threads.number_of_pthread[found]
    if read_u32(context.memory, wait.address) == 0:
        return SeenLock("thread-exit", found, FREE)
    return SeenLock("thread-exit", found, "running", held=held_by((number,)))


def _mutex(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    state = locks.find_mutex(context.memory, wait.address, wait.expected)
    if state is None:
        return None
    if state.owner is None:
        return SeenLock("mutex", state.address, "locked", held=NotRecorded(None), shared=state.process_shared,
                        why=because("records-no-owner", what="normal-mutex"))
    if state.owner not in context.threads.number_of_tid and _MUTEX.isdisjoint(site.functions):
        return None
    return SeenLock("mutex", state.address, "its owner died" if state.owner_died else "locked",
                    held=by_tid(state.owner), shared=state.process_shared or "robust" in state.kind)


def _rwlock(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    state = locks.find_rwlock(context.memory, wait.address, wait.expected)
    if state is None or state.process_shared == bool(wait.op & PRIVATE):
        return None
    called = any("rwlock" in name for name in site.functions)
    if not called and locks.find_mutex(context.memory, wait.address, wait.expected) is not None:
        return None  # the number of readers may be the TID of a mutex's owner
    mode: Mode = SHARED if any("rdlock" in name for name in site.functions) else EXCLUSIVE
    lock = SeenLock("rwlock", state.address, "read-locked" if state.readers else "write-locked", mode,
                    shared=state.process_shared)
    if state.readers:
        return replace(lock, held=NotRecorded(READERS, state.readers))
    return replace(lock, held=NotRecorded(None), why=because("records-no-owner", what="writer"))


def _semaphore(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    shared = locks.is_semaphore(context.memory, wait.address, wait.expected)
    if shared is None or shared == bool(wait.op & PRIVATE):
        return None
    return SeenLock("semaphore", wait.address, "zero", shared=shared, why=because("semaphore-has-no-owner"))


def _condvar(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    found = locks.find_condvar(context.memory, wait.address, wait.expected, context.words(wait.address))
    if found is None:
        return None
    return SeenLock("condvar", found, "waiting for a signal", why=because("condvar-has-no-owner"))


def _barrier(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    instance = locks.barrier_instance(wait.address, wait.expected)
    if instance is None:
        return None
    # the thread that came first does not keep the barrier's address
    words = [word for at in locks.words_of_instance(instance) for word in context.words(at)]
    state = locks.find_barrier(context.memory, instance, words)
    if state is None:
        return None
    return SeenLock("barrier", state.address, f"{state.arrived} of {state.count} arrived", held=NotRecorded(
        None if state.process_shared else ARRIVING, state.count - state.arrived), shared=state.process_shared)


def _file(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    owner = wait.expected & ~_FILE_WAITERS
    if wait.command != FUTEX_WAIT or not wait.expected & _FILE_WAITERS or owner not in context.threads.number_of_tid:
        return None
    if read_u32(context.memory, wait.address) & ~_FILE_WAITERS != owner:
        return None
    return SeenLock("stdio", wait.address, "locked", held=by_tid(owner))


def _once(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    if wait.expected != _ONCE_WAITED_FOR or read_u32(context.memory, wait.address) != _ONCE_WAITED_FOR:
        return None
    return SeenLock("once", wait.address, "in progress", held=NotRecorded(RUNS_ONCE))


_FUNCTIONS = {row.kind: row.functions for row in lock_kinds.KINDS}
_MUTEX = _FUNCTIONS["mutex"]
KINDS = (
    Recogniser("thread-exit", _FUNCTIONS["thread-exit"], _join),
    Recogniser("condvar", _FUNCTIONS["condvar"], _condvar),
    Recogniser("barrier", _FUNCTIONS["barrier"], _barrier),
    Recogniser("stdio", _FUNCTIONS["stdio"], _file),
    Recogniser("mutex", _MUTEX, _mutex),
    Recogniser("rwlock", _FUNCTIONS["rwlock"], _rwlock),
    Recogniser("semaphore", _FUNCTIONS["semaphore"], _semaphore),
    Recogniser("once", _FUNCTIONS["once"], _once, needs_name=True),
)
#: The functions of all rows.
NAMED = lock_kinds.functions_of(KINDS)
