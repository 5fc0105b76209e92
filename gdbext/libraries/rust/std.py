"""Locks of Rust's standard library on Linux: futex words that record no owner.

Sources: rustc 1.95 library/std/src/sys/sync/{mutex,rwlock,once,thread_parking}/futex.rs; rustc 1.63, 1.70 and 1.81, the
same files in library/std/src/sys, where the values of ``Once`` differ.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.cache import read_u32
from gdbext.inferior.protocol import Memory, Section
from gdbext.record import record

#: What a thread expects of the word: a mutex that is locked with waiters, a parked thread.
MUTEX_WAITED_FOR: Final = 2
PARKED: Final = 0xFFFFFFFF
#: ``Once`` that runs with threads that wait: RUNNING with QUEUED, in three generations of the library.
ONCE_WAITED_FOR: Final = frozenset((3, 5, 6))
# RwLock: the number of readers, all ones for a writer; then what waits
_COUNT, _READERS_WAIT, _WRITERS_WAIT = (1 << 30) - 1, 1 << 30, 1 << 31
#: More readers than there can be threads.
_MAX_READERS = 1 << 22
#: The distance of the word on which writers sleep from that on which readers sleep.
_WRITERS = 4
#: Part of the paths in the library's messages, and the most bytes of a file's constants that are searched for it.
_PATH, _MAX_SEARCHED, _STEP = b"library/std/src/", 1 << 26, 1 << 20


@record
class RwLockState:
    """A decoded ``RwLock``, or ``RawRwLock`` of parking_lot, which `readers` hold.

    `state` is ``free``, ``read-locked`` or ``write-locked``.
    """

    address: int
    state: str
    readers: int


def has_library(memory: Memory, constants: Section) -> bool:
    """Whether a file contains Rust's standard library, by the paths of sources in its constants."""
    end = min(constants.end, constants.start + _MAX_SEARCHED)
    for low in range(constants.start, end, _STEP):
        try:
            if _PATH in memory.read(low, min(_STEP + len(_PATH), end - low)):
                return True
        except MemoryUnreadable:
            continue
    return False


def is_locked_mutex(memory: Memory, address: int) -> bool | None:
    """Whether a ``Mutex`` is locked; None if the word is not that of one."""
    word = read_u32(memory, address)
    return bool(word) if word <= MUTEX_WAITED_FOR else None


def rwlock_of_reader(memory: Memory, word: int, expected: int) -> RwLockState | None:
    """Decode the ``RwLock`` for which a reader sleeps; None if it cannot be one.

    :param word: address of the futex word, and `expected` what the thread expects there.
    """
    return _decode_rwlock(memory, word) if expected & _READERS_WAIT and _is_plausible(expected) else None


def rwlock_of_writer(memory: Memory, word: int) -> RwLockState | None:
    """Decode the ``RwLock`` for which a writer sleeps; None if it cannot be one. Its own word only counts signals."""
    state = read_u32(memory, word - _WRITERS)
    return _decode_rwlock(memory, word - _WRITERS) if state & _WRITERS_WAIT else None


def is_surely_of_writer(memory: Memory, word: int, sleepers: Container[int]) -> bool:
    """Whether the state before a futex word shows that a writer sleeps on it.

    Before the word of a condition variable may be half of a negative number, or of a marker of an enum (``1 << 63``).

    :param sleepers: the futex words on which threads sleep. Readers sleep on the state.
    """
    state = read_u32(memory, word - _WRITERS)
    return bool(state & _WRITERS_WAIT) and _is_plausible(state) and (
        state != (1 << 32) - 1 or word - _WRITERS in sleepers)


def _is_plausible(word: int) -> bool:
    return word & _COUNT == _COUNT or 0 < word & _COUNT <= _MAX_READERS


def _decode_rwlock(memory: Memory, address: int) -> RwLockState | None:
    word = read_u32(memory, address)
    if not word & _COUNT:
        return RwLockState(address, "free", 0)
    if word & _COUNT == _COUNT:
        return RwLockState(address, "write-locked", 0)
    return RwLockState(address, "read-locked", word & _COUNT) if _is_plausible(word) else None
