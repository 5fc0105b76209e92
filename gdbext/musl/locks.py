"""musl's `pthread_mutex_t`, `pthread_rwlock_t`, `pthread_cond_t`, `pthread_barrier_t` and `sem_t`.

All of them are arrays of ``int`` and pointers. Source: musl 1.2.3 src/internal/pthread_impl.h, src/thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.record import record

#: The bit of a futex word that says that threads wait.
WAITERS = 0x80000000
_TID, _OWNER_DIED = 0x3FFFFFFF, 0x40000000
_BUSY = 16  # EBUSY, the value of a locked normal mutex
# `_m_type`: two bits of type, then flags
_TYPES = ("normal", "recursive", "error-checking")
_ROBUST, _INHERIT, _SHARED = 4, 8, 128
_KIND_BITS = 3 | _ROBUST | _INHERIT | _SHARED
_WRITER = 0x7FFFFFFF
_MAX_WAITERS = 1 << 22
#: `struct waiter` of a condition variable, on the stack of the thread that waits: prev, next, state, barrier.
_WAITER_WORD, _MAX_CHAIN = 20, 10_000
_HEAD, _TAIL = 8, 40
#: `_b_inst` of a barrier, and `struct instance` on the stack of the thread that came first: count, last, waiters,
#: finished.
_INSTANCE = 24
_LAST, _FINISHED = 4, 12


@record
class MutexState:
    """A mutex that threads wait for. `owner` is the TID, None if it is not recorded, as for a normal mutex."""

    address: int
    kind: str
    owner: int | None
    owner_died: bool
    process_shared: bool


@if_unreadable(None)
def find_mutex(memory: Memory, word: int, expected: int) -> MutexState | None:
    """The mutex whose `_m_lock` is a futex word; None for another word, and for a free lock.

    Source: musl 1.2.3 src/thread/pthread_mutex_timedlock.c, pthread_mutex_trylock.c.

    :param word: 4 bytes behind ``pthread_mutex_t *``.
    :param expected: the value of the word for which the kernel lets the thread sleep.
    """
    kind, lock, waiters = struct.unpack("<IIi", memory.read(word - 4, 12))
    if kind & ~_KIND_BITS or kind & 3 == 3 or not expected & WAITERS or not 0 < waiters < _MAX_WAITERS:
        return None
    is_normal = kind & 15 == 0
    value = lock & ~WAITERS
    if not value or is_normal != (value == _BUSY) or is_normal and expected & ~WAITERS != _BUSY:
        return None
    named = _TYPES[kind & 3] + "".join(name for bit, name in (
        (_ROBUST, ", robust"), (_INHERIT, ", priority-inheriting"), (_SHARED, ", process-shared")) if kind & bit)
    return MutexState(word - 4, named, None if is_normal else value & _TID, bool(value & _OWNER_DIED) and not is_normal,
                      bool(kind & _SHARED))


@record
class RwlockState:
    """A read-write lock that threads wait for: `readers` counts those that have it, 0 if a writer has it."""

    address: int
    readers: int
    process_shared: bool


def find_rwlock(memory: Memory, word: int, expected: int) -> RwlockState | None:
    """The lock whose `_rw_lock` is a futex word; None for another word, and for a free lock.

    Source: musl 1.2.3 src/thread/pthread_rwlock_timedrdlock.c, pthread_rwlock_timedwrlock.c.

    :param word: ``pthread_rwlock_t *``.
    """
    lock, waiters, shared = struct.unpack("<IiI", memory.read(word, 12))
    value = lock & ~WAITERS
    if not expected & WAITERS or not value or not 0 < waiters < _MAX_WAITERS or shared not in (0, _SHARED):
        return None
    if value != _WRITER and value >= _MAX_WAITERS:
        return None
    return RwlockState(word, 0 if value == _WRITER else value, bool(shared))


def is_semaphore(memory: Memory, word: int, expected: int) -> bool | None:
    """Whether a futex word is that of a ``sem_t`` that is zero: True if processes share it; None for another word.

    Source: musl 1.2.3 src/thread/sem_timedwait.c; since 1.2.4 the bit of waiters is set in the value.
    """
    value, waiters, private = struct.unpack("<IiI", memory.read(word, 12))
    if expected not in (WAITERS, 0xFFFFFFFF) or value not in (0, WAITERS, 0xFFFFFFFF):
        return None
    return private == 0 if 0 < waiters < _MAX_WAITERS and private in (0, _SHARED) else None


def find_condvar(memory: Memory, word: int, expected: int, words: Iterable[int]) -> int | None:
    """The condition variable on which a thread waits, by the word of its waiter on its stack.

    Source: musl 1.2.3 src/thread/pthread_cond_timedwait.c: the waiters are a list; the variable has its ends.

    :param words: of the thread's stack and registers, which contain the argument of its call.
    :return: ``pthread_cond_t *``; None if the word is not that of a waiter, or the variable is not found.
    """
    if expected != 2:
        return None
    at = word - _WAITER_WORD
    previous, _, state, barrier = struct.unpack("<QQII", memory.read(at, 24))
    if state > 2 or barrier not in (0, 1, 2):
        return None
    for _ in range(_MAX_CHAIN):
        if not previous:
            break
        if read_u64(memory, previous + 8) != at:
            return None
        at, previous = previous, read_u64(memory, previous)
    for place in words:
        try:
            if not place & 7 and read_u64(memory, place + _HEAD) == at and read_u64(memory, place + _TAIL):
                return place
        except GdbextError:
            continue
    return None


@record
class BarrierState:
    """A barrier on which threads wait."""

    address: int
    count: int
    arrived: int
    process_shared: bool


def barrier_instance(word: int, expected: int) -> int | None:
    """The ``struct instance`` of a barrier that a futex word may be in; the thread that came first waits for 1."""
    return {1: word - _FINISHED, 0: word - _LAST}.get(expected)


def words_of_instance(instance: int) -> tuple[int, int]:
    """The futex words of an instance: that of the thread that came first, and that of all others."""
    return instance + _FINISHED, instance + _LAST


def find_barrier(memory: Memory, instance: int, words: Iterable[int]) -> BarrierState | None:
    """The barrier on which threads wait, by its instance on the first thread's stack.

    Source: musl 1.2.3 src/thread/pthread_barrier_wait.c.

    :param instance: ``struct instance *``.
    :param words: of the stacks and registers of threads that wait in it.
    """
    arrived, = struct.unpack("<I", memory.read(instance, 4))
    for place in words:
        try:
            if place & 7 or read_u64(memory, place + _INSTANCE) != instance:
                continue
            limit, = struct.unpack("<I", memory.read(place + 8, 4))
        except GdbextError:
            continue
        count = (limit & 0x7FFFFFFF) + 1
        return BarrierState(place, count, arrived + 1, bool(limit >> 31)) if arrived < count else None
    return None
