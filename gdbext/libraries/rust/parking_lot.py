"""Locks of Rust's crate parking_lot, and the queues in which it keeps the threads that wait for them.

A thread that waits sleeps on a word of its own, in its ``ThreadData``. That contains the key of the queue, which is the
address of the lock, or one more for a writer that waits until the readers have left. A static hash table has a bucket
for each key, with the list of the threads that wait for it. Nothing records which thread has a lock.

Sources: parking_lot_core 0.9.3 src/parking_lot.rs, src/thread_parker/linux.rs; parking_lot 0.12.1 src/raw_mutex.rs,
src/raw_rwlock.rs, src/condvar.rs, src/once.rs. The layout is that of the compilers from rustc 1.63 to 1.95.
"""

from __future__ import annotations

import struct
from typing import Final

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.libraries.rust.std import RwLockState
from gdbext.record import record

#: The value of a word on which a thread sleeps (``ThreadParker``).
PARKED: Final = 1
# ThreadData: key, next in the queue, token that it is woken with, token that it waits with; then its futex word
_THREAD = struct.Struct("<QQQQI")
_WORD = 32
# HashTable: its buckets (address, number), the table before it, the number's logarithm
_TABLE = struct.Struct("<QQQI")
# Bucket: its lock, first and last thread; in 64 bytes
_BUCKET = struct.Struct("<QQQ")
_BUCKET_SIZE = 64
_GOLDEN = 0x9E3779B97F4A7C15
_MAX_BITS = 24
_ADDRESS = 1 << 48
#: Most threads of one bucket, most readers of a lock, and most bytes of a file's variables that are searched.
_MAX_QUEUE, _MAX_READERS, _MAX_SEARCHED = 1 << 16, 1 << 22, 1 << 23

# RawMutex and Once: one byte
_LOCKED, _HAS_PARKED = 1, 2
_ONCE_RUNS_WITH_PARKED = 4 | 8
# RawRwLock: one word
_RW_PARKED, _RW_WRITER_PARKED, _RW_UPGRADABLE, _RW_WRITER, _ONE_READER = 1, 2, 4, 8, 16
#: What a thread waits for (``ParkToken``); 0 for locks that are not read-write locks.
TO_WRITE, TO_READ, TO_UPGRADE = _RW_WRITER, _ONE_READER, _ONE_READER | _RW_UPGRADABLE


@record
class ParkedThread:
    """A thread that sleeps on its own word. `token` says what it asks for. `data` is its ``ThreadData *``."""

    data: int
    key: int
    token: int


def read_parked(memory: Memory, word: int) -> ParkedThread | None:
    """Read the data of the thread that sleeps on a word; None if the word cannot be in a ``ThreadData``.

    :param word: address of the futex word, an ``AtomicI32``.
    :raises MemoryUnreadable: the data is not readable.
    """
    if word & 7:
        return None
    key, following, _, token, parked = _THREAD.unpack(memory.read(word - _WORD, _THREAD.size))
    if parked != PARKED or not 0 < key < _ADDRESS or following & 7 or following >= _ADDRESS:
        return None
    return ParkedThread(word - _WORD, key, token)


def is_in_queue(memory: Memory, table: int, parked: ParkedThread) -> bool:
    """Whether a hash table has a thread in the queue of the key that it waits for.

    :param table: ``HashTable *``.
    """
    try:
        buckets, number, _, bits = _TABLE.unpack(memory.read(table, _TABLE.size))
        if not 0 < bits <= _MAX_BITS or number != 1 << bits or buckets % _BUCKET_SIZE or not buckets:
            return False
        index = (parked.key * _GOLDEN & (1 << 64) - 1) >> 64 - bits
        _, at, last = _BUCKET.unpack(memory.read(buckets + index * _BUCKET_SIZE, _BUCKET.size))
        for _ in range(_MAX_QUEUE):
            if at == parked.data:
                return True
            if not at or at == last:
                break
            at = read_u64(memory, at + 8)
    except MemoryUnreadable:
        pass
    return False


def find_table(memory: Memory, start: int, end: int, parked: ParkedThread) -> int | None:
    """The address of the variable that points to the hash table with a waiting thread, among a file's variables.

    A program may contain several copies of the crate, each with its own table. The variable has no exported name.

    :param start: start of the file's ``.bss`` or ``.data``, and `end` its end.
    """
    for low in range(start & ~7, min(end, start + _MAX_SEARCHED), 1 << 16):
        size = min(1 << 16, end - low) & ~7
        try:
            words = memoryview(memory.read(low, size)).cast("Q")
        except MemoryUnreadable:
            continue
        for index, word in enumerate(words):
            if 1 << 12 <= word < _ADDRESS and not word & 7 and is_in_queue(memory, word, parked):
                return low + 8 * index
    return None


def is_locked_mutex(memory: Memory, address: int) -> bool | None:
    """Whether a ``RawMutex`` that a thread waits for is locked; None if the byte is not that of one."""
    byte = memory.read(address, 1)[0]
    return bool(byte & _LOCKED) if byte & ~_LOCKED == _HAS_PARKED else None


def is_running_once(memory: Memory, address: int) -> bool:
    """Whether a byte is that of a ``Once`` whose function runs, with threads that wait for its end."""
    return memory.read(address, 1)[0] == _ONCE_RUNS_WITH_PARKED


def mutex_of_condvar(memory: Memory, address: int) -> int | None:
    """The ``RawMutex *`` in a ``Condvar`` with waiting threads; None if the word is not that of one."""
    if address & 7:
        return None
    mutex = read_u64(memory, address)
    if not 1 << 12 <= mutex < _ADDRESS:
        return None
    try:
        return mutex if memory.read(mutex, 1)[0] <= _LOCKED | _HAS_PARKED else None
    except MemoryUnreadable:
        return None


def decode_rwlock(memory: Memory, parked: ParkedThread) -> RwLockState | None:
    """Decode the read-write lock for which a thread waits; None if its bits contradict that.

    A writer that waits until the readers have left keeps other threads out, but does not hold it.

    :raises MemoryUnreadable: the lock is not readable.
    """
    address, waits_for_readers = parked.key & ~7, parked.key & 7
    if waits_for_readers > 1 or parked.token not in (TO_WRITE, TO_READ, TO_UPGRADE):
        return None
    word = read_u64(memory, address)
    readers, expected = word // _ONE_READER, _RW_WRITER_PARKED if waits_for_readers else _RW_PARKED
    if not word & expected or readers > _MAX_READERS or waits_for_readers and parked.token != TO_WRITE:
        return None
    state = "read-locked" if readers else "write-locked" if word & _RW_WRITER else "free"
    return RwLockState(address, state, readers)
