"""Python's own locks as objects: `_thread.lock`, `RLock`, `Condition`, `Event`, `Queue`, files, threads to join.

Layouts describe the objects of ``Modules/_threadmodule.c``, ``_queuemodule.c``, ``_io/bufferedio.c`` and
``_multiprocessing/semaphore.c``. Classes written in Python (``threading``, ``queue``, ``concurrent.futures``,
``multiprocessing.pool``, ``importlib``) are recognised by their names and attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gdbext.cpython.locking.fast_rlock import is_fast_rlock, read_fast_rlock
from gdbext.cpython.locking.parking_lot import is_linked
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, if_unreadable
from gdbext.inferior.cache import read_u32, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.remembered import remembered

#: Since 3.15 a ``PyThread_type_lock`` points to a ``PyMutex``, before that to a ``sem_t`` (Python/thread_pthread.h).
_LOCKS_ARE_MUTEXES = (3, 15)
_LOCKED = 1  # bit of a PyMutex (Include/cpython/lock.h)
_HAPPENED = 1  # bit of a PyEvent (Include/internal/pycore_lock.h)
_RUNNING = 3  # THREAD_HANDLE_RUNNING (Modules/_threadmodule.c)
_RECURSIVE = 0  # RECURSIVE_MUTEX (Modules/_multiprocessing/semaphore.c)
_MASK64 = (1 << 64) - 1
#: What a `queue.Queue`, or a `LifoQueue` or `PriorityQueue`, keeps its items in: objects whose size is their length.
_CONTAINERS = frozenset(("collections.deque", "list"))
#: Largest plausible number of parties of a barrier.
_MAX_PARTIES = 1 << 20


@record
class PyLock:
    """The state of a lock object (``PyObject *``).

    `words` are the addresses of the futex words, or parking places, that the waiting threads sleep on. `owner` is the
    ``pthread_self()`` of the recorded owner, or of the thread to join; None if none is recorded. `guard` is an inner
    object that the waiting threads sleep in, or that protects the lock. `shared` locks are for several processes, and
    only record owners in this one. `why` is more about the state.
    """

    kind: LockKind
    address: int
    type_name: str
    state: str
    words: tuple[int, ...] = ()
    locked: bool = True
    owner: int | None = None
    guard: int = 0
    name: str | None = None
    shared: bool = False
    why: Reason | None = None


class LockReader:
    """Decodes the lock objects of one runtime."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects) -> None:
        self._memory = memory
        self._layouts = layouts
        self._objects = objects
        self._decoders: dict[str, Callable[[int, str], PyLock | None]] = {
            "_thread.lock": self._lock, "_thread.RLock": self._rlock, "_thread._ThreadHandle": self._handle,
            "_queue.SimpleQueue": self._simple_queue, "_io.BufferedReader": self._buffered,
            "_io.BufferedWriter": self._buffered, "_io.BufferedRandom": self._buffered,
            "_multiprocessing.SemLock": self._sem_lock, "_RLock": self._python_rlock, "Barrier": self._barrier,
            "_ModuleLock": self._module_lock, "Thread": self._thread,
            "Condition": self._condition,
            "Event": self._guarded("py-event", "not set", "_cond", "_flag"),
            "Semaphore": self._guarded("py-semaphore", "zero", "_cond", "_value"),
            "Future": self._guarded("py-condition", "result is pending", "_condition", "_state"),
            "ApplyResult": self._guarded("py-event", "result is pending", "_event", "_job"),
            "IMapIterator": self._guarded("py-condition", "result is pending", "_cond", "_items"),
            "SemLock": self._sem_lock_object, "_ModuleLockManager": self._inner("_lock"),
        }
        self._known: dict[int, PyLock | None] = {}

    @property
    def header(self) -> int:
        """Size of the part that all objects begin with, in bytes."""
        return self._layouts["PyObject"].size

    def decode(self, address: int) -> PyLock | None:
        """The state of a lock object (``PyObject *``); None for an object of another kind.

        :raises GdbextError: the address does not hold an object, or the object is damaged.
        """
        names = self._objects.type_names(address)
        decoders = list(filter(None, map(self._decoders.get, names)))
        if not decoders and any(map(is_fast_rlock, names)):
            decoders = [self._fast_rlock]
        if decoders and address not in self._known:
            self._known[address] = None  # an object may be part of itself
            type_name = self._objects.type_name(address)
            # a class may have the name of another's: `threading` and `multiprocessing` have a Semaphore each
            self._known[address] = next(filter(None, (decoder(address, type_name) for decoder in decoders)), None)
        return self._known.get(address) if decoders else None

    def waited_through(self, address: int, condition: int) -> PyLock | None:
        """The lock that a thread waits for if a method of an object waits for a `Condition`; None if not known.

        :param address: the object (``PyObject *``).
        :param condition: ``PyObject *``.
        """
        if "Queue" in self._objects.type_names(address):
            for name, waits, state in (("not_empty", "get", "queue is empty"), ("not_full", "put", "queue is full"),
                                       ("all_tasks_done", "join", "not all tasks are done"),
                                       ("_cond", "join", "not all tasks are done")):  # of `multiprocessing`
                if self._objects.attribute(address, name) == condition:
                    return PyLock("py-condition", condition, self._objects.type_name(address), state, guard=condition,
                                  shared=self._is_shared(condition), why=self._queue_counts(address, waits))
            return None
        lock = self.decode(address)
        return lock if lock is not None and lock.guard == condition else None

    @remembered
    @if_unreadable(None)
    def _queue_counts(self, address: int, waits: str) -> Reason | None:
        """The numbers of a `queue.Queue`; None if one of them is of another type than the module gives it.

        :param waits: the method that a thread waits in.
        """
        found = self._members(address, "unfinished_tasks", "maxsize", "queue")
        if not found or not _CONTAINERS.intersection(self._objects.type_names(found[2])):
            return None
        unfinished, maxsize = self._number(found[0]), self._number(found[1])
        if unfinished is None or maxsize is None or unfinished < 0:
            return None
        return because("queue-counts", waits=waits, unfinished=unfinished, maxsize=maxsize,
                       queued=self._objects.size(found[2]))

    # -- written in C ----------------------------------------------------------------------------------------

    def _word(self, pointer: int) -> tuple[int, bool]:
        if not pointer:
            raise CorruptStructure(pointer, "a lock without a word")
        if self._layouts.version_tuple >= _LOCKS_ARE_MUTEXES:
            return pointer, self._mutex_locked(pointer)
        return pointer, read_u32(self._memory, pointer) == 0  # a semaphore's value

    def _mutex_locked(self, address: int) -> bool:
        return bool(self._memory.read(address, 1)[0] & _LOCKED)

    def _lock(self, address: int, type_name: str) -> PyLock:
        known = self._layouts["lockobject"]
        if "lock" in known or 0 < self._objects.basic_size(address) < known.size:
            word = address + self._mutex_offset
            locked = self._mutex_locked(word)
        else:
            word, locked = self._word(self._objects.read_member("lockobject", address, "lock_lock"))
        return PyLock("py-lock", address, type_name, _state(locked), (word,), locked)

    @property
    def _mutex_offset(self) -> int:
        """Offset of the mutex in a `_thread.lock`, since 3.13.1."""
        known = self._layouts["lockobject"]
        # the table of 3.13.0, whose locks were larger, is also used for some later versions
        return known.offset("lock") if "lock" in known else self._layouts["PyObject"].size

    def _rlock(self, address: int, type_name: str) -> PyLock:
        known = self._layouts["rlockobject"]
        if "mutex" in known:  # since 3.14
            word = address + known.offset("mutex")
            mutex, owner = self._objects.read_members("rlockobject", address, "mutex", "thread")
            locked = bool(mutex & _LOCKED)
        else:
            pointer, owner, count = self._objects.read_members(
                "rlockobject", address, "rlock_lock", "rlock_owner", "rlock_count")
            word, locked = self._word(pointer)[0], count > 0
        return PyLock("py-rlock", address, type_name, _state(locked), (word,), locked,
                      owner & _MASK64 if locked else None)  # signed in 3.6

    def _fast_rlock(self, address: int, type_name: str) -> PyLock | None:
        state = read_fast_rlock(self._memory, address + self.header, self._objects.basic_size(address) - self.header)
        if state is None:
            return None
        word, _ = self._word(state.lock)
        return PyLock("py-fast-rlock", address, type_name, _state(state.count > 0), (word,), state.count > 0,
                      state.owner if state.count else None)

    def _handle(self, address: int, type_name: str) -> PyLock | None:
        handle = self._objects.read_member("PyThreadHandleObject", address, "handle")
        return self._thread_end(handle, address, type_name)

    def _thread_end(self, handle: int, address: int, type_name: str) -> PyLock | None:
        """The end of a ``ThreadHandle *``'s thread (CPython 3.13 and later); None if the thread is not running.

        :param address: the object to which the handle belongs (``PyObject *``).
        """
        ident, state, event = self._objects.read_members("ThreadHandle", handle, "ident", "state", "thread_is_exiting")
        if state != _RUNNING or event & _HAPPENED:
            return None
        word = handle + self._layouts["ThreadHandle"].offset("thread_is_exiting")
        return PyLock("thread-exit", address, type_name, "running", (word,), owner=ident)

    def handle_at(self, word: int) -> PyLock | None:
        """The end of a thread, given the address of the event in its ``ThreadHandle``; None if it is not one."""
        known = self._layouts["ThreadHandle"]
        handle = word - known.offset("thread_is_exiting")
        if not is_linked(self._memory, self._layouts, handle + known.offset("node")):
            return None
        return self._thread_end(handle, handle, "ThreadHandle")

    def object_at(self, word: int) -> PyLock | None:
        """The lock object that has its mutex at a parking place, or None."""
        offsets = [self._mutex_offset]
        if self._layouts.has("rlockobject", "mutex"):
            offsets.append(self._layouts["rlockobject"].offset("mutex"))
        for offset in offsets:
            lock = self.decode(word - offset)
            if lock is not None and word in lock.words:
                return lock
        return None

    def _simple_queue(self, address: int, type_name: str) -> PyLock:
        known = self._layouts["simplequeueobject"]
        if "lock" in known:
            word, _ = self._word(self._objects.read_member("simplequeueobject", address, "lock"))
        else:  # since 3.13
            word = address + known.offset("has_threads_waiting")
        return PyLock("py-condition", address, type_name, "queue is empty", (word,))

    def _buffered(self, address: int, type_name: str) -> PyLock | None:
        pointer, owner = self._objects.read_members("buffered", address, "lock", "owner")
        if not pointer:
            return None  # closed, or not yet opened
        word, locked = self._word(pointer)
        # signed up to 3.6
        return PyLock("py-buffered-io", address, type_name, _state(locked), (word,), locked, owner & _MASK64 or None)

    def buffer_of(self, address: int) -> int:
        """The binary file (``PyObject *``) below a text file (``_io.TextIOWrapper``), or 0."""
        return self._objects.read_member("textio", address, "buffer")

    def _sem_lock_object(self, address: int, type_name: str) -> PyLock | None:
        """A lock of `multiprocessing` as programs have it.

        The object below a ``BoundedSemaphore(1)`` is the same as a Lock's; only this one shows that it has no owner:
        any process may release it, as `multiprocessing.Queue` does.
        """
        lock = self._inner("_semlock")(address, type_name)
        if lock is None or lock.kind != "py-lock" or "Semaphore" not in self._objects.type_names(address):
            return lock
        return replace(lock, kind="py-semaphore", state=_permits(lock.locked), owner=None)

    def _sem_lock(self, address: int, type_name: str) -> PyLock:
        word, last, count, most, kind = self._objects.read_members(
            "SemLockObject", address, "handle", "last_tid", "count", "maxvalue", "kind")
        locked = read_u32(self._memory, word) == 0
        if kind != _RECURSIVE and most != 1:
            return PyLock("py-semaphore", address, type_name, _permits(locked), (word,), locked, shared=True)
        return PyLock("py-rlock" if kind == _RECURSIVE else "py-lock", address, type_name, _state(locked), (word,),
                      locked, last & _MASK64 if locked and count > 0 else None, shared=True)

    # -- written in Python -----------------------------------------------------------------------------------

    def _members(self, address: int, *names: str) -> list[int] | None:
        found = [self._objects.attribute(address, name) for name in names]
        return [value for value in found if value] if all(found) else None

    def _number(self, address: int) -> int | None:
        return self._objects.integer(address) if self._objects.type_name(address) == "int" else None

    def _guarded(self, kind: LockKind, state: str, *members: str) -> Callable[[int, str], PyLock | None]:
        """Make a decoder of objects that have these attributes, the first of which is the guard."""
        def decode(address: int, type_name: str) -> PyLock | None:
            found = self._members(address, *members)
            return PyLock(kind, address, type_name, state, guard=found[0],
                          shared=self._is_shared(found[0])) if found else None
        return decode

    def _is_shared(self, condition: int) -> bool:
        """Whether an object is a `Condition` of `multiprocessing`, which a thread of another process may notify."""
        lock = self.decode(condition)
        return lock is not None and lock.kind == "py-condition" and lock.shared

    def _condition(self, address: int, type_name: str) -> PyLock | None:
        state = "waiting for a notification"
        found = self._members(address, "_lock", "_waiters")
        if found:
            return PyLock("py-condition", address, type_name, state, guard=found[0])
        # of `multiprocessing`: all threads that wait for it sleep in one semaphore
        lock, semaphore = map(self.decode, self._members(address, "_lock", "_wait_semaphore") or (0, 0))
        if lock is None or semaphore is None:
            return None
        return PyLock("py-condition", address, type_name, state, semaphore.words, guard=lock.address, shared=True)

    def _inner(self, member: str) -> Callable[[int, str], PyLock | None]:
        """Make a decoder of objects that wrap a lock in an attribute."""
        def decode(address: int, type_name: str) -> PyLock | None:
            inner = self._objects.attribute(address, member)
            return self.decode(inner) if inner and inner != address else None
        return decode

    def _barrier(self, address: int, type_name: str) -> PyLock | None:
        found = self._members(address, "_cond", "_parties")
        if not found:
            return None
        own = self._objects.attribute(address, "_count")
        parties, count = self._number(found[1]), self._number(own) if own else self._shared_count(address)
        if parties is None or count is None or not 0 <= count <= parties <= _MAX_PARTIES:
            return None
        return PyLock("barrier", address, type_name, f"{count} of {parties} arrived", guard=found[0],
                      shared=self._is_shared(found[0]))

    def _shared_count(self, address: int) -> int | None:
        """How many threads have arrived at a `multiprocessing.Barrier`; None for another object.

        Source: CPython 3.13 Lib/multiprocessing/{synchronize,heap}.py; Modules/mmapmodule.c: mmap_object.
        """
        wrapper = self._objects.attribute(address, "_wrapper")
        state = self._members(wrapper, "_state") if wrapper else None
        items = self._objects.tuple_items(state[0]) if state else ()
        block = self._objects.tuple_items(items[0]) if items else ()
        found = self._members(block[0], "buffer") if len(block) == 3 else None
        start = self._number(block[1]) if found else None
        if not found or start is None or not 0 <= start < 1 << 32 or self._objects.type_name(found[0]) != "mmap.mmap":
            return None
        # two C integers: the state of the barrier and the number
        return read_u32(self._memory, read_u64(self._memory, found[0] + self.header) + start + 4)

    def _python_rlock(self, address: int, type_name: str) -> PyLock | None:
        found = self._members(address, "_block", "_owner", "_count")
        if not found:
            return None
        block, owner, locked = self.decode(found[0]), self._number(found[1]), bool(self._number(found[2]))
        if block is None:
            return None
        return replace(block, kind="py-rlock", address=address, type_name=type_name, state=_state(locked),
                       locked=locked, owner=owner if locked else None, guard=block.address)

    def _module_lock(self, address: int, type_name: str) -> PyLock | None:
        found = self._members(address, "wakeup", "owner", "name")
        wakeup = self.decode(found[0]) if found else None
        if not found or wakeup is None:
            return None
        owner = self._number(found[1])
        return PyLock("py-import", address, type_name, _state(owner is not None), wakeup.words, owner is not None,
                      owner, wakeup.address, f"module {self._objects.string(found[2])}")

    def _thread(self, address: int, type_name: str) -> PyLock | None:
        handle = (self._objects.attribute(address, "_os_thread_handle")  # since 3.14
                  or self._objects.attribute(address, "_handle"))  # 3.13
        if handle:
            lock = self.decode(handle)
            return replace(lock, address=address, guard=handle) if lock is not None else None
        found = self._members(address, "_tstate_lock", "_ident")
        if not found:
            return None
        lock, ident = self.decode(found[0]), self._number(found[1])
        if lock is None or ident is None:
            return None  # the thread has ended
        return PyLock("thread-exit", address, type_name, "running", lock.words, lock.locked, ident, lock.address)


def _state(locked: bool) -> str:
    return "locked" if locked else "free"


def _permits(locked: bool) -> str:
    return "zero" if locked else "not zero"
