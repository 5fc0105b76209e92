"""Structures of Qt 5 and 6 on Linux: mutexes, the thread of a `QThread`, and calls in a thread's queue of events.

Where Qt moved members between releases, the structure is found by its contents: a `QObject` and its private data
point to each other, and the data of a thread has the thread's `QThread` and, after it, its ``pthread_self()``.

Sources: Qt 5.15.8, 6.4.2 and 6.12.0 src/corelib/thread/{qmutex_linux.cpp,qmutex_p.h,qthread_p.h,qfutex_p.h,
qwaitcondition_unix.cpp}, src/corelib/kernel/{qobject_p.h,qcoreapplication.cpp}; compared with memory of each release.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Container, Iterator

from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_available, read_u32, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.record import record

# wheels may contain a copy with a hash in its name: libQt5Core-39545cc7.so.5.15.0
_FILE = re.compile(r"^libQt(?P<major>[56])Core(?:-[0-9a-f]+)?\.so[.0-9]*$")

#: The futex value that threads expect while they sleep on a `QBasicMutex`.
MUTEX_WAITED_FOR = 3
#: A `QBasicMutex` is a pointer: null if it is free, 1 if locked, 3 if locked and waited for.
_MUTEX_STATES = {0: False, 1: True, MUTEX_WAITED_FOR: True}
# bytes from the inner mutex of a recursive one back to the owner and the count (in Qt 6 `QRecursiveMutex`, in Qt 5
# `QRecursiveMutexPrivate`)
_OWNER = 16
# what Qt 5 has before that mutex: ``recursive`` (bool), ``owner``, ``count`` of further locks by the owner
_RECURSIVE = struct.Struct("<B7xQIxxxx")
_MAX_COUNT = 1 << 22
#: From ``QWaitConditionPrivate`` to its condition variable: a pthread mutex is before it.
_CONDITION = 40
#: Bytes that are searched: of a `QObject`'s private data, of a thread's data, of an event.
_MAX_PRIVATE, _MAX_THREAD, _MAX_EVENT = 512, 256, 128
#: A pointer to an object is aligned, and not in the first page.
_LOWEST = 4096
#: Most events of one queue.
_MAX_EVENTS = 4096
#: `QPostEvent`: ``receiver``, ``event``, ``priority``.
_POST_EVENT = struct.Struct("<QQixxxx")


def major_version(file: str) -> int | None:
    """The major version of Qt, by the name of its library QtCore; None for another library."""
    found = _FILE.match(file)
    return int(found["major"]) if found else None


# -- mutexes --------------------------------------------------------------------------------------------------

def is_locked(memory: Memory, mutex: int) -> bool | None:
    """Whether a ``QBasicMutex *`` is locked; None if the memory is not one.

    :raises MemoryUnreadable: the mutex is not mapped, or not in the core.
    """
    return _MUTEX_STATES.get(read_u64(memory, mutex))


def is_inside_recursive(memory: Memory, mutex: int, pthreads: Container[int]) -> bool:
    """Whether a ``QBasicMutex *`` of Qt 5 is that inside a held ``QRecursiveMutexPrivate``.

    :param pthreads: ``pthread_self()`` of the threads of the process.
    :raises MemoryUnreadable: the memory before the mutex is not mapped, or not in the core.
    """
    is_recursive, owner, count = _RECURSIVE.unpack(memory.read(mutex - _RECURSIVE.size, _RECURSIVE.size))
    return is_recursive == 1 and owner in pthreads and count <= _MAX_COUNT


def owner_of_recursive(memory: Memory, mutex: int) -> int:
    """The owner (``pthread_self()``) of a recursive mutex; 0 if none is recorded.

    :param mutex: the ``QBasicMutex *`` inside.
    :raises MemoryUnreadable: the mutex is not mapped, or not in the core.
    """
    return read_u64(memory, mutex - _OWNER)


def locker_holds(memory: Memory, wrapper: int, header: int, lock: int, may_have_flag: bool = True) -> bool:
    """Whether a `QMutexLocker`, `QReadLocker` or `QWriteLocker` of a Python program has a lock.

    The wrapper leads to the C++ object. In PySide6 its third pointer leads to private data, those to an array of C++
    objects, and that to the locker. In PyQt5 its first pointer leads to the locker, in PyQt6 by way of another object.

    Sources: PySide 6.12 shiboken6 libshiboken/basewrapper{.h,_p.h}; PyQt6 6.12 qpy/QtCore/qpycore_pyqtmutexlocker.h;
    sip 6 siplib/sip.h; Qt 5.15 and 6.12 src/corelib/thread/{qmutex.h,qreadwritelock.h}.

    :param wrapper: ``PyObject *``.
    :param header: size of the part that all objects begin with.
    :param lock: ``QBasicMutex *`` or ``QReadWriteLock *``.
    :param may_have_flag: whether the locker may be a pointer and a flag, as the `QMutexLocker` of Qt 6 is.
    """
    for private in _words(memory, wrapper + header, 24):
        for second in (private, *_words(memory, private, 64)) if _is_pointer(private) else ():
            if not _is_pointer(second):
                continue
            first = _words(memory, second, 8)
            if any(_is_pointer(at) and _is_locker(memory, at, lock, may_have_flag) for at in (second, *first)):
                return True
    return False


def _is_locker(memory: Memory, address: int, lock: int, may_have_flag: bool) -> bool:
    """Whether a locker has a lock: the lowest bit of the pointer says so, or a flag after it."""
    words = _words(memory, address, 16)
    return bool(words) and (words[0] == lock | 1 or may_have_flag and words[0] == lock and len(words) > 1
                            and words[1] & 0xFF == 1)


# -- threads --------------------------------------------------------------------------------------------------

@record
class ThreadData:
    """The ``QThreadData`` of a thread. `at` is the address of its member ``thread``, a ``QThread *``."""

    at: int
    thread: int
    pthread: int


def _words(memory: Memory, address: int, size: int) -> tuple[int, ...]:
    data = read_available(memory, address, size)
    return struct.unpack(f"<{len(data) // 8}Q", data[:len(data) & ~7])


def _is_pointer(word: int) -> bool:
    return word >= _LOWEST and not word & 7 and not word >> 48


@if_unreadable(0)
def partner_of(memory: Memory, address: int) -> int:
    """The private data (``QObjectPrivate *``) of a `QObject`, or the `QObject` of private data; 0 for other memory.

    Each has the pointer to the other behind its table of virtual functions, so the two cannot be distinguished.
    """
    if not _is_pointer(address):
        return 0
    partner = read_u64(memory, address + 8)
    return partner if _is_pointer(partner) and read_u64(memory, partner + 8) == address else 0


def find_thread_data(memory: Memory, private: int, pthreads: Container[int]) -> Iterator[ThreadData]:
    """The ``QThreadData`` that the private data of a `QObject` point to: that of its thread, and of a `QThread`.

    :param pthreads: ``pthread_self()`` of the threads of the process.
    """
    for word in dict.fromkeys(_words(memory, private, _MAX_PRIVATE)):
        if not _is_pointer(word):
            continue
        inside = _words(memory, word, _MAX_THREAD)
        for index, (thread, pthread) in enumerate(zip(inside, inside[1:])):
            if pthread in pthreads and partner_of(memory, thread):
                yield ThreadData(word + 8 * index, thread, pthread)
                break


@if_unreadable(None)
def ended_thread(memory: Memory, address: int, condition: int, pthreads: Container[int]) -> int | None:
    """The ``pthread_self()`` of a `QThread` whose end is waited for; None if it is not known.

    :param address: ``QThread *``, ``QThreadPrivate *``, or any other address.
    :param condition: the ``pthread_cond_t *`` on which the end is waited for; in the `QThread` it is ``thread_done``.
    """
    partner = partner_of(memory, address)
    for private, thread in ((partner, address), (address, partner)) if partner else ():
        if condition - _CONDITION in _words(memory, private, _MAX_PRIVATE):
            for data in find_thread_data(memory, private, pthreads):
                if data.thread == thread:
                    return data.pthread
    return None


# -- events ---------------------------------------------------------------------------------------------------

def has_call(memory: Memory, major: int, data: ThreadData, released: int) -> bool:
    """Whether an event is in a thread's queue that releases a semaphore or a latch.

    An event is removed from the queue, or its pointer there is cleared, before it is handled.

    :param released: address of the semaphore or latch, which the event refers to.
    :raises GdbextError: the queue is damaged, or not in the core.
    """
    return any(refers_to(memory, event, released) for event in _iter_events(memory, major, data))


def _iter_events(memory: Memory, major: int, data: ThreadData) -> Iterator[int]:
    """The waiting events (``QEvent *``) of a thread's ``postEventList``, which is before ``thread``."""
    if major == 5:
        array = read_u64(memory, data.at - 32)
        if not array:
            return
        count, start = read_u32(memory, array + 4), array + read_u64(memory, array + 16)
    else:
        start, count = read_u64(memory, data.at - 48), read_u64(memory, data.at - 40)
    if not count or count > _MAX_EVENTS or not _is_pointer(start):
        return
    for _, event, _ in _POST_EVENT.iter_unpack(memory.read(start, count * _POST_EVENT.size)):
        if _is_pointer(event):
            yield event


def refers_to(memory: Memory, event: int, released: int) -> bool:
    """Whether an event (``QMetaCallEvent *``) contains an address."""
    return released in _words(memory, event, _MAX_EVENT)
