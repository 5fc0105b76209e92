"""`QReadWriteLock` of Qt 5 and 6 on Linux.

The lock is one word: 0 if it is free, else bits that count readers or show a writer, or, if it is recursive or threads
wait for it, a pointer to private data (``QReadWriteLockPrivate``). These have two condition variables, one for writers
and one for readers, and count all threads that have the lock or wait for it. Only a recursive lock records its owners.

Sources: Qt 5.15, 6.4, 6.5 and 6.11 src/corelib/thread/{qreadwritelock.cpp,qreadwritelock_p.h}, and of Qt 5.15
src/corelib/tools/qhash.h; compared with memory of each release.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.record import record

# from a ``QWaitConditionPrivate`` of Qt 5 to its condition variable: a pthread mutex is before it
_CONDITION = 40
# ``readerCount``, ``writerCount``, ``waitingReaders``, ``waitingWriters``, ``recursive``, ``id``, ``currentWriter``
_COUNTS = struct.Struct("<iiiiBxxxiQ")
# In Qt 5 a mutex of one word is first, then come pointers to the two `QWaitConditionPrivate`.
_QT_5_CONDITIONS, _QT_5_COUNTS = struct.Struct("<8xQQ"), 24
# In Qt 6 the condition variables are inside: the offsets of that for writers, that for readers, and the counts. Up to
# 6.5 a mutex is before them. Later they come first, and the mutex is aligned to 64 bytes.
_QT_6 = ((40, 88, 136), (0, 48, 168))
# ``currentReaders``, after the counts. Qt 6: `QVarLengthArray` of {thread, depth}: capacity, size, address
_ARRAY, _READER = struct.Struct("<QQQ"), struct.Struct("<Qixxxx")
# Qt 5: `QHash` of depths by thread; ``QHashData``: buckets, size, number of buckets
_HASH = struct.Struct("<8xQxxxxi8xi")
# ``QHashNode``: next, hash, thread; the data itself is the end of each list
_NODE = struct.Struct("<QIxxxxQ")
_MAX_THREADS = 1 << 22


@record
class RwlockState:
    """A `QReadWriteLock` for which a thread waits.

    `writer` and `reading` are the recorded threads (``pthread_self()``); 0 and empty if the lock is not recursive.
    """

    readers: int
    written: bool
    waits_to_read: bool
    writer: int
    reading: tuple[int, ...]


def decode_rwlock(memory: Memory, major: int, private: int, condition: int) -> RwlockState | None:
    """Decode the `QReadWriteLock` whose waiting threads sleep on a condition variable.

    :param major: 5 or 6.
    :param private: the lock's ``QReadWriteLockPrivate *``, or any other address.
    :param condition: ``pthread_cond_t *``.
    :return: None if this is not such a lock, or if its state contradicts that a thread waits there.
    :raises MemoryUnreadable: the address is not mapped, or not in the core.
    """
    if major == 5:
        conditions = _QT_5_CONDITIONS.unpack(memory.read(private, _QT_5_CONDITIONS.size))
        places = [(*[at + _CONDITION for at in conditions], private + _QT_5_COUNTS)]
    else:
        places = [(private + for_writers, private + for_readers, private + counts)
                  for for_writers, for_readers, counts in _QT_6]
    for for_writers, for_readers, counts in places:
        if condition in (for_writers, for_readers):
            return _decode(memory, major, counts, condition == for_readers)
    return None


def _decode(memory: Memory, major: int, at: int, waits_to_read: bool) -> RwlockState | None:
    readers, writers, waiting_readers, waiting_writers, recursive, _, writer = _COUNTS.unpack(
        memory.read(at, _COUNTS.size))
    numbers = (readers, writers, waiting_readers, waiting_writers)
    waiting = waiting_readers if waits_to_read else waiting_writers
    if (min(numbers) < 0 or max(numbers) > _MAX_THREADS or not waiting or recursive > 1 or readers and writers
            # a reader that a writer has woken when it gave up
            or waits_to_read and not (writers or waiting_writers)
            or not recursive and (writers > 1 or writer)):
        return None
    reading: tuple[int, ...] = ()
    if recursive and readers:
        owners = _qt_5_readers if major == 5 else _qt_6_readers
        reading = tuple(owners(memory, at + _COUNTS.size, readers))
        if len(reading) != readers:
            return None
    return RwlockState(readers, bool(writers), waits_to_read, writer if writers else 0, reading)


def _qt_6_readers(memory: Memory, at: int, count: int) -> Iterator[int]:
    _, size, array = _ARRAY.unpack(memory.read(at, _ARRAY.size))
    if size == count:
        for thread, _ in _READER.iter_unpack(memory.read(array, size * _READER.size)):
            yield thread


def _qt_5_readers(memory: Memory, at: int, count: int) -> Iterator[int]:
    data = read_u64(memory, at)
    buckets, size, number = _HASH.unpack(memory.read(data, _HASH.size))
    if size != count or not 0 < number <= 2 * _MAX_THREADS:
        return
    for (node,) in struct.iter_unpack("<Q", memory.read(buckets, 8 * number)):
        while node != data:
            if not count:
                return
            count -= 1
            node, _, thread = _NODE.unpack(memory.read(node, _NODE.size))
            yield thread
