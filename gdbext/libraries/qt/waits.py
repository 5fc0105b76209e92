"""Waits of threads inside Qt: for mutexes, read-write locks, semaphores, the end of a `QThread`, and queued calls.

A `QMutex` records no owner. A `QRecursiveMutex` does, and so does a `QReadWriteLock` that is recursive. In a blocking
queued call (``Qt::BlockingQueuedConnection``) a thread sleeps on a semaphore on its own stack, which the thread of the
receiver releases after the call: that thread has the event in its queue, or handles it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from gdbext.errors import GdbextError, if_unreadable
from gdbext.glibc.futex import FUTEX_WAIT, FutexWait
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Module
from gdbext.libraries.qt import decoding
from gdbext.libraries.qt.rwlock import RwlockState, decode_rwlock
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.scene import Scene
from gdbext.locks.seen import (
    FREE,
    UNKNOWN,
    RecordedDescriptor,
    SeenLock,
    by_descriptor,
    held_by,
    may_be_held_by,
    without_owner,
)
from gdbext.model import DERIVED, EXCLUSIVE, INFERRED, SHARED, Mode
from gdbext.model.reasons import because
from gdbext.remembered import remembered
from gdbext.runtimes.names import public_name
from gdbext.threads.function_code import code_up_to
from gdbext.threads.mentions import OUTERMOST
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread

MUTEX: Final = "qt-mutex"
RWLOCK: Final = "qt-rwlock"
RECURSIVE: Final = "qt-recursive-mutex"
SEMAPHORE: Final = "qt-semaphore"
CALL: Final = "qt-call"
#: Most bytes of one stack that are searched for objects of Qt.
_MAX_STACK = 1 << 15
#: Functions in which a thread waits for a blocking queued call, at the start of their names.
_CALLS = ("QMetaObject::", "doActivate", "void doActivate", "QMetaMethod::")


class Qt(LibraryWaits):
    """The waits of threads inside Qt, which is searched for when the first thread sleeps in it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._sites = Sites(scene.memory, scene.code, ())
        # by address of the private data of a read-write lock: the address of the lock
        self._rwlocks: dict[int, int | None] = {}

    @cached_property
    def _majors(self) -> dict[str, int]:
        """The path of each QtCore of the process, and its major version."""
        found = {module.path: decoding.major_version(module.name) for module in self._code.modules}
        return {path: major for path, major in found.items() if major is not None}

    def _major(self, pc: int) -> int | None:
        module: Module | None = self._code.module(pc)
        return self._majors.get(module.path) if module is not None else None

    def _functions(self, seen: SeenThread) -> tuple[int | None, list[str]]:
        """The major version of the QtCore that a thread sleeps in, and its functions on top of the stack."""
        native, depth = seen.native(self._code), self._depth(seen)
        major = self._major(native[depth][0]) if depth < len(native) else None
        names = []
        for index in range(depth, len(native) if major is not None else 0):
            if self._major(native[index][0]) is None:
                break
            names.append(public_name(self._code.symbol(native[index][0], index).function or ""))
        return major, names

    def _depth(self, seen: SeenThread) -> int:
        """The index of the first frame outside of the C library; the number of frames if there is none."""
        native = seen.native(self._code)
        return next((i for i, (pc, _) in enumerate(native) if not self._sites.in_runtime(pc)), len(native))

    def find_lock(self, seen: SeenThread, futex: FutexWait) -> SeenLock | None:
        """What a thread waits for that sleeps on a futex word of Qt; None for any other wait."""
        if not self._majors or futex.command != FUTEX_WAIT:
            return None
        major, names = self._functions(seen)
        if major is None:
            return None
        try:
            if futex.expected == decoding.MUTEX_WAITED_FOR:
                return self._mutex(futex.address, major, names)
            # a semaphore counts in 64 bits, and threads that want more than one sleep on the upper half
            is_semaphore = any(name.startswith("QSemaphore::") for name in names)
            address = futex.address & ~7 if is_semaphore else futex.address
            if any(name.startswith(_CALLS) for name in names):
                return self._call(seen, major, address)
            if is_semaphore:
                return SeenLock(SEMAPHORE, address, "waited for", why=because("semaphore-has-no-owner"))
        except GdbextError:
            pass
        return None

    def _mutex(self, address: int, major: int, names: Sequence[str]) -> SeenLock | None:
        locked = decoding.is_locked(self._memory, address)
        if locked is None:
            return None
        state = "locked" if locked else FREE
        # in Qt 5 the function has no exported name, but `QMutex::lock` ends with the wait and is not on the stack
        is_recursive = any(name.startswith("QRecursiveMutex::") for name in names) or (
            major == 5 and len(names) > 1
            and decoding.is_inside_recursive(self._memory, address, self._threads.number_of_pthread))
        if not is_recursive:
            return without_owner(MUTEX, address, state, MUTEX)
        owner = decoding.owner_of_recursive(self._memory, address) if locked else 0
        number = self._threads.number_of_pthread.get(owner)
        return SeenLock(RECURSIVE, address, state, held=by_descriptor(number, owner),
                        why=None if owner else because("lock-about-to-be-taken"))

    def find_purpose(self, seen: SeenThread, event: SeenLock) -> SeenLock | None:
        """The end of a `QThread`, or the `QReadWriteLock`, for which a thread sleeps on a condition variable."""
        return self.find_thread_end(seen, event.address) or self.find_rwlock(seen, event.address)

    # -- read-write locks ------------------------------------------------------------------------------------

    @if_unreadable(None)
    def find_rwlock(self, seen: SeenThread, condition: int) -> SeenLock | None:
        """The `QReadWriteLock` for which a thread sleeps on a condition variable; None for any other wait.

        The address is that of its private data if that of the lock itself is not found.

        :param condition: ``pthread_cond_t *``.
        """
        if not self._majors:
            return None
        major, names = self._functions(seen)
        named = any("ReadWriteLock::" in name for name in names)
        # functions for recursive locks have no exported names, and may have replaced the frame of their caller
        inner = [name for name in names if not name.startswith("QWaitCondition::")]
        if major is None or not named and (not inner or any(inner)):
            return None
        found = {private: state for private in self._stack(seen.number)
                 for state in [self._rwlock_state(major, private, condition)] if state is not None}
        if len(found) != 1:
            return None
        private, state = found.popitem()
        if private not in self._rwlocks:
            caller = self._depth(seen) + len(names)
            self._rwlocks[private] = self._find_rwlock_address(seen, caller, private)
        address = self._rwlocks[private] or (private if named else None)
        return self._rwlock(address, state) if address is not None else None

    @if_unreadable(None)
    def _rwlock_state(self, major: int, private: int, condition: int) -> RwlockState | None:
        return decode_rwlock(self._memory, major, private, condition)

    def _find_rwlock_address(self, seen: SeenThread, caller: int, private: int) -> int | None:
        """The only address among those that threads have at hand where a pointer to private data of a lock is.

        :param caller: index of the frame that has called Qt. Frames of Qt itself have copies of the pointer too.
        """
        native = seen.native(self._code)
        own = range(seen.sp, native[min(caller, len(native) - 1)][1])

        def has_pointer(address: int) -> bool:
            data = read_available(self._memory, address, 8)
            # Qt's list of private data has pointers to them too
            return (address not in own and int.from_bytes(data, "little") == private
                    and self._major(address) is None)

        argument = self._first_argument(seen, caller) if caller < len(native) else None
        if argument is not None and has_pointer(argument):
            return argument
        stack = self._stack(seen.number)
        lockers = (int.from_bytes(read_available(self._memory, word, 8), "little") & ~1 for word in stack)
        others = (other.number for other in self._threads if other.unavailable is None)
        for words in (stack, lockers, (word for number in others for word in self._stack(number))):
            found = {word for word in words if has_pointer(word)}
            if found:
                return found.pop() if len(found) == 1 else None
        return None

    @if_unreadable(None)
    def _first_argument(self, seen: SeenThread, index: int) -> int | None:
        """The first argument of the call in a frame, if it is constant or can be computed again."""
        cpu = self._code.cpu
        instructions = code_up_to(self._target, self._code, seen.native(self._code)[index][0])
        if len(instructions) < 2 or instructions[-2].kind != "call":
            return None
        origin = cpu.origin(instructions, len(instructions) - 2, cpu.ARGUMENTS[0])
        if origin is None or origin.kind == "constant":
            return origin.value if origin is not None else None
        if origin.operand is None or origin.instruction is None or not origin.operand_unchanged:
            return None
        registers = self._target.frame_registers(seen.ref, index + len(seen.handler))
        return origin.operand.address(registers, origin.instruction.next_address)

    def _rwlock(self, address: int, state: RwlockState) -> SeenLock:
        mode: Mode = SHARED if state.waits_to_read else EXCLUSIVE
        text = "write-locked" if state.written else "read-locked" if state.readers else FREE
        owners = (state.writer,) if state.writer else state.reading
        if not owners:
            return without_owner(RWLOCK, address, text, RWLOCK, mode, state.readers)
        numbers = self._threads.number_of_pthread
        held = held_by([numbers.get(owner) for owner in owners], mode=EXCLUSIVE if state.written else SHARED)
        return SeenLock(RWLOCK, address, text, mode,
                        held=RecordedDescriptor(owners[0]) if held == UNKNOWN else held)

    # -- the end of a thread ---------------------------------------------------------------------------------

    @if_unreadable(None)
    def find_thread_end(self, seen: SeenThread, condition: int) -> SeenLock | None:
        """The end of a `QThread` for which a thread sleeps on a condition variable; None for any other wait.

        :param condition: ``pthread_cond_t *``.
        """
        if not self._majors or self._functions(seen)[0] is None:
            return None
        pthreads = self._threads.number_of_pthread
        for word in self._stack(seen.number):
            pthread = decoding.ended_thread(self._memory, word, condition, pthreads)
            if pthread is not None:
                return SeenLock("thread-exit", pthread, "running", held=held_by((pthreads[pthread],)))
        return None

    # -- blocking queued calls -------------------------------------------------------------------------------

    def _call(self, seen: SeenThread, major: int, address: int) -> SeenLock:
        """A call that another thread runs, by the event for it."""
        for data in self._thread_data:
            try:
                if decoding.has_call(self._memory, major, data, address):
                    why = because("qt-call-queued")
                    number = self._threads.number_of_pthread[data.pthread]
                    return SeenLock(CALL, address, "queued", held=held_by((number,), DERIVED, why), why=why)
            except GdbextError:
                continue
        handling = [other.number for other in self._threads if other is not seen and other.unavailable is None
                    and any(self._is_event(word) and decoding.refers_to(self._memory, word, address)
                            for word in self._stack(other.number))]
        if len(handling) == 1 and self._threads.all_available:
            why = because("qt-call-handled")
            return SeenLock(CALL, address, "handled", held=held_by(handling, INFERRED, why), why=why)
        return SeenLock(CALL, address, "waited for", held=may_be_held_by(handling), why=because("qt-call-unknown"))

    @cached_property
    def _thread_data(self) -> Sequence[decoding.ThreadData]:
        """The data of the threads that run event loops, from the objects of Qt on all stacks."""
        found: dict[int, decoding.ThreadData] = {}
        for seen in self._threads:
            for word in self._stack(seen.number) if seen.unavailable is None else ():
                partner = decoding.partner_of(self._memory, word)
                for private in (word, partner) if partner else ():
                    found.update((data.at, data) for data in self._data_of(private))
        return tuple(found.values())

    @remembered
    def _data_of(self, private: int) -> Sequence[decoding.ThreadData]:
        return tuple(decoding.find_thread_data(self._memory, private, self._threads.number_of_pthread))

    @if_unreadable(False)
    def _is_event(self, address: int) -> bool:
        """Whether an address holds an object of a class of QtCore; a freed one has lost the pointer that shows it."""
        return not address & 7 and self._major(int.from_bytes(self._memory.read(address, 8), "little")) is not None

    @remembered
    def _stack(self, number: int) -> Sequence[int]:
        """The distinct pointers on a thread's stack, and in registers that calls preserve."""
        return tuple(dict.fromkeys(word for word in self._iter_stack(self._threads[number])
                                   if word > 1 << 12 and not word & 7 and not word >> 48))

    def _iter_stack(self, seen: SeenThread) -> Iterator[int]:
        try:
            yield from self._target.registers(seen.ref, seen.cpu.CALLEE_SAVED).values()
        except GdbextError:
            pass
        low = seen.sp & ~7
        size = min(seen.native(self._code)[-1][1] + OUTERMOST - low, _MAX_STACK) & ~7
        data = read_available(self._memory, low, max(size, 0))
        yield from struct.unpack(f"<{len(data) // 8}Q", data[:len(data) & ~7])


WAITS = Qt
