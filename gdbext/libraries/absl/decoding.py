"""`absl::Mutex` and `absl::CondVar`: threads that wait for them, and the words of both.

Each thread that waits has a `PerThreadSynch`, aligned to 256 bytes, and sleeps on a futex word behind it. The word of a
mutex or a condition variable with waiters contains the address of the last `PerThreadSynch` in a circular list of them.
So the list proves which lock a thread waits for, without symbols. Nothing records which thread has a lock.

Sources: Abseil 20220623 absl/synchronization/mutex.cc (`SynchWaitParams`, `MuHowS`, `kMuReader` and others),
absl/base/internal/thread_identity.h, absl/synchronization/internal/{waiter,futex}.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.record import record

#: The value of a futex word on which a thread sleeps.
ASLEEP: Final = 0
# PerThreadSynch: next and skip, flags and priority, its state, SynchWaitParams *, number of readers
_SYNCH = struct.Struct("<QQ12xIQQ")
_ALIGNMENT, _QUEUED = 256, 1
# its distance to the futex word: up to 20260107, and from 20260526 on
_WORDS = (64, 128)
# SynchWaitParams: MuHowS *, Condition *, timeout, Mutex * of a condition variable, PerThreadSynch *
_PARAMS = struct.Struct("<QQQQQ")
# MuHowS: the bit that the thread wants to set in the word is the second member
_HOW_BIT = 8
# The word of a mutex. A reader counts 256; with waiters the readers are in the last PerThreadSynch.
_READER, _WAITED_FOR, _WRITER, _LOW = 1, 4, 8, 0xFF
_ONE_READER, _MODES = 0x100, (_READER, _WRITER)
# The word of a condition variable: its two lowest bits are flags
_CONDVAR_LOW = 3
_MAX_WAITERS, _MAX_READERS = 1 << 16, 1 << 22


@record
class Waiter:
    """A thread that waits. `queue` are the ``PerThreadSynch *`` in its list.

    With `has_condition` it waits until that is true. `mutex` is the ``Mutex *`` that it has released in order to wait
    for a condition variable. `params` is its ``SynchWaitParams *``, in the frame of the function that waits.
    """

    queue: frozenset[int]
    reads: bool
    has_condition: bool
    mutex: int | None
    params: int


@record
class Awaited:
    """A lock with waiters. `state` is ``write-locked``, ``read-locked`` or ``free``; None for a condition variable."""

    address: int
    state: str | None
    readers: int = 0


def read_waiter(memory: Memory, word: int) -> Waiter | None:
    """Read what a thread waits for that sleeps on a word; None if that is not the word of a ``PerThreadSynch``.

    :raises MemoryUnreadable: the structures are not readable.
    """
    synch = word & -_ALIGNMENT
    if word - synch not in _WORDS:
        return None
    at, _, state, params, _ = _SYNCH.unpack(memory.read(synch, _SYNCH.size))
    if state != _QUEUED or params & 7 or not params:
        return None
    how, condition, _, mutex, thread = _PARAMS.unpack(memory.read(params, _PARAMS.size))
    if thread != synch:
        return None
    bit = read_u64(memory, how + _HOW_BIT)
    queue = {synch}
    while at not in queue and len(queue) < _MAX_WAITERS:
        if not at or at % _ALIGNMENT:
            return None
        queue.add(at)
        at = read_u64(memory, at)
    return Waiter(frozenset(queue), bit == _READER, condition != 0, mutex or None, params) if bit in _MODES else None


def find_awaited(memory: Memory, waiter: Waiter, addresses: Iterable[int]) -> Awaited | None:
    """Find the lock in whose list a thread is.

    :param addresses: where the lock may be, such as the words of the thread's stack.
    :return: None if no address or several are those of such locks.
    """
    if waiter.mutex is not None:
        # a signal moves threads from the list of the condition variable to that of the mutex
        moved = _mutex(memory, waiter, waiter.mutex)
        if moved is not None:
            return moved
    decode = _mutex if waiter.mutex is None else _condvar
    # an element of the list begins like a condition variable: with the address of the next one
    found = [decode(memory, waiter, address) for address in set(addresses) - waiter.queue]
    locks = [lock for lock in found if lock is not None]
    return locks[0] if len(locks) == 1 else None


@if_unreadable(None)
def _condvar(memory: Memory, waiter: Waiter, address: int) -> Awaited | None:
    return Awaited(address, None) if read_u64(memory, address) & ~_CONDVAR_LOW in waiter.queue else None


@if_unreadable(None)
def _mutex(memory: Memory, waiter: Waiter, address: int) -> Awaited | None:
    word = read_u64(memory, address)
    last = word & ~_LOW
    if not word & _WAITED_FOR or last not in waiter.queue:
        return None
    if word & _WRITER:
        return Awaited(address, "write-locked")
    if not word & _READER:
        return Awaited(address, "free")
    *_, readers = _SYNCH.unpack(memory.read(last, _SYNCH.size))
    # the lowest bits are not part of the number
    count = readers // _ONE_READER
    return Awaited(address, "read-locked", count) if 0 < count <= _MAX_READERS else None
