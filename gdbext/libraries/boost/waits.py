"""`boost::shared_mutex`: a pthread mutex, three condition variables, and a state that counts readers.

It records no owner. Its waiting threads sleep on one of the condition variables, so it is found around that one: each
part must be plausible, and the state must be one for which a thread waits there.

Source: Boost 1.74 boost/thread/pthread/{shared_mutex,condition_variable_fwd}.hpp, built with interruption points, which
is the default; its layout has not changed since Boost 1.54.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from gdbext.errors import MemoryUnreadable
from gdbext.glibc.futex import MAX_THREADS
from gdbext.glibc.mutex import decode_mutex
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.seen import MENTIONS, READERS, NotRecorded, SeenLock
from gdbext.model import EXCLUSIVE, SHARED, Mode
from gdbext.model.reasons import because
from gdbext.record import record
from gdbext.threads.threads import SeenThread

KIND: Final = "boost-shared-mutex"

#: ``shared_count``, ``exclusive``, ``upgrade``, ``exclusive_waiting_blocked`` and padding.
_STATE = struct.Struct("<IBBBx")


@record
class SharedMutexState:
    """A `boost::shared_mutex` for which a thread waits.

    A `shared` wait is one of a reader. The holders are a writer (`exclusive`) or `readers`; a thread with `upgrade`
    is one of the readers, and may become the writer.
    """

    address: int
    readers: int
    exclusive: bool
    upgrade: bool
    shared: bool


def find_shared_mutex(memory: Memory, layouts: Layouts, condition: int) -> SharedMutexState | None:
    """Find the shared mutex whose waiters sleep on a condition variable.

    :param condition: ``pthread_cond_t *``.
    :return: None if there is none, or if it is ambiguous which of its condition variables this is.
    """
    mutex, whole = layouts["pthread_mutex_t"].size, layouts["pthread_mutex_t"].size + layouts["pthread_cond_t"].size
    # a `boost::condition_variable` has a mutex of its own before the condition
    found = [_decode(memory, layouts, condition - _STATE.size - 2 * mutex - index * whole, waits, whole, shared)
             for index, (waits, shared) in enumerate(_WAITS)]
    states = [state for state in found if state is not None]
    return states[0] if len(states) == 1 else None


def _for_shared(readers: int, exclusive: int, upgrade: int, writer_waits: int) -> bool:
    return bool(exclusive or writer_waits or upgrade)


def _for_exclusive(readers: int, exclusive: int, upgrade: int, writer_waits: int) -> bool:
    return bool(writer_waits and (readers or exclusive))


def _for_upgrade(readers: int, exclusive: int, upgrade: int, writer_waits: int) -> bool:
    return bool(upgrade and readers and not exclusive)


#: For ``shared_cond``, ``exclusive_cond`` and ``upgrade_cond``: the states in which threads wait there, and whether
#: these are readers.
_WAITS: tuple[tuple[Callable[[int, int, int, int], bool], bool], ...] = (
    (_for_shared, True), (_for_exclusive, False), (_for_upgrade, False))


def _decode(memory: Memory, layouts: Layouts, address: int, waits: Callable[[int, int, int, int], bool], whole: int,
            shared: bool) -> SharedMutexState | None:
    if address <= 0 or address & 7:
        return None
    try:
        readers, *flags = _STATE.unpack(memory.read(address, _STATE.size))
        if readers > MAX_THREADS or max(flags) > 1 or flags[0] and readers or not waits(readers, *flags):
            return None
        start = address + _STATE.size
        inner = start + layouts["pthread_mutex_t"].size
        for at in (start, *(inner + index * whole for index in range(3))):
            state = decode_mutex(memory, layouts, at)
            # all of them are plain mutexes, and free while nobody enters or leaves
            if not state.plausible or state.kind != "normal" or state.locked != bool(state.owner):
                return None
    except MemoryUnreadable:
        return None
    return SharedMutexState(address, readers, bool(flags[0]), bool(flags[1]), shared)


class Boost(LibraryWaits):
    """The waits of threads for a `boost::shared_mutex`."""

    def find_purpose(self, seen: SeenThread, event: SeenLock) -> SeenLock | None:
        """The mutex that one of its condition variables belongs to; None for any other condition variable."""
        layouts = self._scene.library.layouts
        if layouts is None or event.shared:
            return None
        state = find_shared_mutex(self._memory, layouts, event.address)
        if state is None:
            return None
        text = "write-locked" if state.exclusive else "read-locked" if state.readers else "changing hands"
        mode: Mode = SHARED if state.shared else EXCLUSIVE
        if state.readers:
            return SeenLock(KIND, state.address, text, mode, held=NotRecorded(READERS, state.readers))
        return SeenLock(KIND, state.address, text, mode, held=NotRecorded(MENTIONS if state.exclusive else None),
                        why=because("records-no-owner", what="shared-mutex"))


WAITS = Boost
