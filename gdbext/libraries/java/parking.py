"""What a Java thread sleeps for in ``LockSupport.park``: the object that it has left in its ``parkBlocker``.

For a lock of ``java.util.concurrent`` this object has the queue of the threads that wait. It records the owner of the
lock, which writes the field after it has acquired the lock, and clears it before it releases the lock. So the thread
in the field has the lock. The same is true of the first of several readers.

Sources: OpenJDK 11, 17, 21 and 25 src/java.base/share/classes/java/lang/Thread.java,
java/util/concurrent/locks/{LockSupport,AbstractOwnableSynchronizer,AbstractQueuedSynchronizer,
AbstractQueuedLongSynchronizer,ReentrantLock,ReentrantReadWriteLock}.java,
src/hotspot/share/prims/unsafe.cpp (``Unsafe_Park``), os/posix/os_posix.cpp (``Parker::park``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from gdbext.errors import CorruptStructure, GdbextError, if_unreadable
from gdbext.inferior.cache import read_u32, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.libraries.java.heap import Objects
from gdbext.libraries.java.hotspot import JavaThread, Table
from gdbext.record import record
from gdbext.remembered import remembered

_THREAD: Final = "java.lang.Thread"
_HOLDER: Final = "java.lang.Thread$FieldHolder"
_LOCKS: Final = "java.util.concurrent.locks."
_OWNABLE: Final = f"{_LOCKS}AbstractOwnableSynchronizer"
# The class that has the state and the queue, with the type and the size of the state. A ReentrantReadWriteLock has the
# second one since JDK 25.
_QUEUED: Final = ((f"{_LOCKS}AbstractQueuedSynchronizer", "I", 4), (f"{_LOCKS}AbstractQueuedLongSynchronizer", "J", 8))
_CONDITION, _SHARED_NODE = "$ConditionObject", "$SharedNode"
# The bases of classes whose lock only its owner can release; programs cannot derive classes from them. In the state of
# the second one, the upper half counts readers.
_LOCK: Final = f"{_LOCKS}ReentrantLock$Sync"
_READ_WRITE_LOCK: Final = f"{_LOCKS}ReentrantReadWriteLock$Sync"
# bits of the state of a thread, as in JVMTI
_TERMINATED, _PARKED = 0x2, 0x200
_MAX_WAITERS = 1 << 14

#: How a lock is held: nobody has it; a thread; one that has ended; readers; it is of a class of the program, so another
#: thread than the recorded one may be able to release it; not known.
How = Literal["free", "owned", "left", "read", "claimed", "unknown"]


@record
class Parked:
    """What a thread sleeps for: the object, 0 if there is none, and the name of its class.

    `lock` is how the lock is held that the object belongs to, or None if it belongs to none. `owner` is the
    ``java.lang.Thread`` that has it; 0 if none is recorded. `readers` is the number of readers that have it, and
    `owner` is then the first one. `shared` is whether the thread waits for a read-write lock as a reader, None for
    other locks.
    """

    blocker: int
    class_name: str | None = None
    lock: How | None = None
    owner: int = 0
    readers: int = 0
    shared: bool | None = None


class Parking:
    """Reads what threads sleep for. `threads` are all threads of the Java machine."""

    def __init__(self, memory: Memory, table: Table, objects: Objects, threads: Sequence[JavaThread]) -> None:
        self._memory = memory
        self._table = table
        self._objects = objects
        self._threads = {thread.address: thread for thread in threads}

    @if_unreadable(None)
    def read(self, thread: JavaThread) -> Parked | None:
        """What a thread sleeps for in ``park``; None if it is not in ``park``, or that is not known."""
        objects = self._objects
        carrier = self._object_of(thread, "JavaThread._threadObj")
        # the two refer to each other
        if self._native_thread(carrier) != thread.address or not self._status(carrier) & _PARKED:
            return None
        # a virtual thread that cannot leave its carrier parks this one, and has its own blocker
        has_virtual = "JavaThread._vthread" in self._table.offsets
        current = self._object_of(thread, "JavaThread._vthread") if has_virtual else carrier
        blocker = objects.reference(current, _THREAD, "parkBlocker", "Ljava/lang/Object;")
        if not blocker:
            return Parked(0)
        names = objects.names(blocker)
        if names[0].endswith(_CONDITION):
            # a thread that was notified, but has not woken up yet, is in the queue of the lock
            base = names[0][:-len(_CONDITION)]
            lock = objects.reference(blocker, names[0], "this$0", _signature(base))
            if current not in self._waiters(lock, base):
                return Parked(blocker, names[0])
            blocker, names = lock, objects.names(lock)
        return self._lock(blocker, names, current) if _OWNABLE in names else Parked(blocker, names[0])

    def _lock(self, lock: int, names: Sequence[str], waiter: int) -> Parked | None:
        owner = self._thread_in(lock, _OWNABLE, "exclusiveOwnerThread")
        if _LOCK not in names and _READ_WRITE_LOCK not in names:
            return Parked(lock, names[0], "claimed" if owner else None, owner)
        base, signature, size = next(row for row in _QUEUED if row[0] in names)
        place = self._objects.place(lock, base, "state", signature)
        state = int.from_bytes(self._memory.read(place, size), "little")
        readers, shared = 0, None
        if _READ_WRITE_LOCK in names:
            readers, state = divmod(state, 1 << 4 * size)
            # a writer that has it may be a reader too
            readers = readers if not state else 0
            shared = self._waiters(lock, base).get(waiter)
            if shared is None:
                return None
        # between the two steps of acquiring or releasing it, the owner is missing
        how: How = "unknown" if state else "read" if readers else "free"
        if owner:
            how = "unknown" if not state else "left" if self._has_ended(owner) else "owned"
        elif how == "read":
            owner = self._thread_in(lock, _READ_WRITE_LOCK, "firstReader")
            how = "left" if owner and self._has_ended(owner) else "read"
        return Parked(lock, names[0], how, owner, readers, shared)

    def _thread_in(self, lock: int, base: str, name: str) -> int:
        """The ``java.lang.Thread`` in a field of a lock; 0 for null."""
        found = self._objects.reference(lock, base, name, _signature(_THREAD))
        if found and _THREAD not in self._objects.names(found):
            raise CorruptStructure(found, "no thread")
        return found

    @remembered
    def _waiters(self, lock: int, base: str) -> Mapping[int, bool]:
        """The ``java.lang.Thread`` of each thread that waits for a lock: whether it waits as a reader."""
        objects = self._objects
        node_class = f"{base}$Node"
        node = objects.reference(lock, base, "tail", _signature(node_class))
        nodes: dict[int, None] = {}
        found: dict[int, bool] = {}
        while node and node not in nodes and len(nodes) < _MAX_WAITERS:
            nodes[node] = None
            names = objects.names(node)
            if objects.has(node, node_class, "waiter"):
                found[self._thread_in(node, node_class, "waiter")] = names[0].endswith(_SHARED_NODE)
            else:
                # up to JDK 13
                found[self._thread_in(node, node_class, "thread")] = bool(
                    objects.reference(node, node_class, "nextWaiter", _signature(node_class)))
            node = objects.reference(node, node_class, "prev", _signature(node_class))
        return found

    @if_unreadable(None)
    def find_thread(self, subject: int) -> JavaThread | None:
        """The thread of the operating system that runs a ``java.lang.Thread``; None if there is none."""
        native = self._native_thread(subject)
        if native:
            return self._threads.get(native)
        # a virtual thread; it has no thread of its own, and often none at all
        found = self._carriers().get(subject, ())
        return found[0] if len(found) == 1 else None

    @remembered
    def _carriers(self) -> Mapping[int, Sequence[JavaThread]]:
        """The threads that run each ``java.lang.Thread``, of which there is only one."""
        found: dict[int, list[JavaThread]] = {}
        for thread in self._threads.values():
            try:
                found.setdefault(self._object_of(thread, "JavaThread._vthread"), []).append(thread)
            except GdbextError:
                continue
        return found

    def _object_of(self, thread: JavaThread, member: str) -> int:
        """The ``java.lang.Thread`` to which a member of ``JavaThread`` refers."""
        offset = self._table.offsets.get(member)
        if offset is None:
            raise CorruptStructure(thread.address, f"the table lacks {member}")
        for found in self._objects.refer_to(thread.address + offset):
            if _THREAD in self._objects.names(found):
                return found
        raise CorruptStructure(thread.address, "no thread")

    def _native_thread(self, subject: int) -> int:
        """The ``JavaThread *`` of a ``java.lang.Thread``; 0 if it has ended or not begun, and for a virtual thread."""
        return read_u64(self._memory, self._objects.place(subject, _THREAD, "eetop", "J"))

    def _status(self, subject: int) -> int:
        """The state of a ``java.lang.Thread``, which is in an object of its own since JDK 19."""
        if not self._objects.has(subject, _THREAD, "holder"):
            return read_u32(self._memory, self._objects.place(subject, _THREAD, "threadStatus", "I"))
        holder = self._objects.reference(subject, _THREAD, "holder", _signature(_HOLDER))
        return read_u32(self._memory, self._objects.place(holder, _HOLDER, "threadStatus", "I"))

    @if_unreadable(False)
    def _has_ended(self, subject: int) -> bool:
        """Whether a thread has ended; false for a virtual thread, which has another state."""
        return not self._native_thread(subject) and bool(self._status(subject) & _TERMINATED)


def _signature(name: str) -> str:
    return f"L{name.replace('.', '/')};"
