"""Python locks that threads wait for, and their names in the program."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.locking.locks import PyLock
from gdbext.cpython.locking.waited import DEPTH
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.protocol import Target
from gdbext.locks.python_reader import Reader
from gdbext.locks.seen import SeenLock
from gdbext.model.kinds import kind_of
from gdbext.remembered import remembered
from gdbext.threads.code import Code
from gdbext.threads.python_side import Python, PythonSide
from gdbext.threads.threads import SeenThread, Threads
from gdbext.waits.parked import ParkedWaits

#: Most waiters of a lock whose frames are searched for a name of the lock.
_MAX_NAMING = 4
#: Most bytes of a native stack that are searched for the object that the interpreter waits for.
_NATIVE = 2048


Found = TypeVar("Found")


class PythonLocks:
    """The locks of Python programs that threads wait for.

    :param object_names: whether the objects that have the locks are named by values of their attributes.
    """

    def __init__(self, target: Target, code: Code, threads: Threads, side: PythonSide, parked: ParkedWaits,
                 object_names: bool = True) -> None:
        self._target = target
        self._code = code
        self._memory = target.memory
        self._guard = side.findings.guard
        self._threads = threads
        self._side = side
        self._parked = parked
        self._object_names = object_names
        self._readers: dict[int, Reader] = {}
        # by id: the lock, and the number of threads that were searched for its name
        self._found: dict[str, SeenLock] = {}
        self._searched: dict[str, int] = {}
        # by runtime and futex word: the id of the lock
        self._by_word: dict[tuple[int, int], str] = {}

    @property
    def shows_values(self) -> bool:
        """Whether the report may have values of the program's variables."""
        return self._object_names

    def reader(self, python: Python) -> Reader:
        """The reader of a runtime's locks."""
        reader = self._readers.get(id(python))
        if reader is None:
            reader = Reader(self._memory, python, self._threads.number_of_pthread)
            self._readers[id(python)] = reader
        return reader

    def find(self, python: Python, seen: SeenThread, tstate: int, word: int) -> SeenLock | None:
        """The Python lock for which a thread sleeps on a word; None if it does not wait for a Python lock.

        :raises GdbextError: the lock cannot be read.
        """
        parked = self._parked.parked(seen)
        if parked is not None:
            if parked.handed_off:
                return None  # it has the lock already, and has not run since
            word = parked.address
        reader = self.reader(python)
        lock_id = self._by_word.get((id(reader), word))
        known = self._found[lock_id] if lock_id is not None else None
        if known is not None and (known.name is not None or self._searched[known.id] >= _MAX_NAMING):
            return known
        stack = reader.frames.raw(tstate, DEPTH)
        waited = reader.waited.find(word, stack, lambda: self._native_words(seen),
                                    lambda: self._kept_words(python, seen))
        if waited is None:
            return known
        lock, index, path = waited
        found = _seen_lock(lock)
        # of this wait alone; `merge` has those of all, and thousands of threads may wait for one event
        found = replace(self._found.get(found.id, found), known_by=found.known_by.union(path))
        if found.name is None and kind_of(lock.kind).behaviour != "thread-end":
            found = self._guard("names of locks", functools.partial(
                self._with_name, reader, found, stack[index:], path), found, doubt=False)
        self._searched[found.id] = self._searched.get(found.id, 0) + 1
        self._found[found.id] = found
        self._by_word[(id(reader), word)] = found.id
        return found

    def _with_name(self, reader: Reader, found: SeenLock, stack: Sequence[RawFrame], path: Sequence[int]) -> SeenLock:
        named = reader.names.find(stack, path)
        if named is None:
            return found
        found = replace(found, name=named.text, known_by=found.known_by.union([named.object] if named.object else []))
        around = reader.locks.decode(named.around) if named.around else None
        if around is not None and found.python is not None and around.address == found.python.address:
            found = replace(_seen_lock(around), name=found.name, known_by=found.known_by)  # what the program calls it
        if self._object_names and named.object and not named.of_class:
            found = replace(found, of_object=reader.object_names.find(named.object))
        return found

    @if_unreadable(())
    def _native_words(self, seen: SeenThread) -> Sequence[int]:
        data = self._memory.read(seen.sp & ~7, _NATIVE)
        return [word for word in struct.unpack(f"<{len(data) // 8}Q", data) if word and not word & 7]

    @if_unreadable(())
    def _kept_words(self, python: Python, seen: SeenThread) -> Sequence[int]:
        """The registers that calls preserve, and the native stack, if the interpreter waits for compiled code."""
        own = self._code.module(seen.pc)
        modules = (self._code.module(pc) for pc, _ in seen.native(self._code))
        if next((module for module in modules if module is not own), None) is not python.runtime.module:
            return ()
        registers = self._target.registers(seen.ref, seen.cpu.CALLEE_SAVED).values()
        return [*(word for word in registers if word and not word & 7), *self._native_words(seen)]

    def waits_in_with(self, seen: SeenThread) -> bool:
        """Whether a thread waits in a `with` statement, of the program or of the standard library.

        Such a thread waits to use what the lock protects, not for an event, as ``acquire`` may do.
        """
        for python, tstate in self._side.thread(seen.number).tstates:
            try:
                if self.reader(python).enters(tstate.address, self._word(seen)):
                    return True
            except GdbextError:
                continue
        return False

    def is_called_from_python(self, seen: SeenThread) -> bool:
        """Whether a thread waits for a lock that its Python frames refer to; also true if they cannot be read."""
        for python, tstate in self._side.thread(seen.number).tstates:
            reader = self.reader(python)
            try:
                stack = reader.frames.raw(tstate.address, DEPTH)
                if reader.waited.is_called_from_python(self._word(seen), stack):
                    return True
            except GdbextError:
                return True
        return False

    def _word(self, seen: SeenThread) -> int:
        """The futex word that a thread sleeps on, or the address where it is parked."""
        parked = self._parked.parked(seen)
        if parked is not None:
            return parked.address
        return seen.futex.address if seen.futex is not None else 0

    def find_name(self, address: int, numbers: Iterable[int]) -> str | None:
        """The name of an object (``PyObject *``) in the innermost frames of the threads; None if none has it."""
        for number in numbers:
            for reader, stack in self.stacks(number):
                named = reader.names.find(stack, [address])
                if named is not None:
                    return named.text
        return None

    def at(self, address: int) -> SeenLock | None:
        """The Python lock object at an address, also if no thread waits for it; None if there is none."""
        pythons = {id(python): python for seen in self._threads
                   for python, _ in self._side.thread(seen.number).tstates}
        for python in pythons.values():
            reader = self.reader(python)
            try:
                lock = reader.locks.decode(address)
            except GdbextError:
                continue
            if lock is not None:
                return _seen_lock(lock)
        return None

    def in_stacks(self, read: Callable[[Reader, Sequence[RawFrame]], Found | None]) -> list[tuple[int, Reader, Found]]:
        """What a function finds in the Python stacks of all threads, with the numbers of these; see `GdbextError`."""
        made = []
        for seen in self._threads:
            for reader, stack in self.stacks(seen.number):
                try:
                    found = read(reader, stack)
                except GdbextError:
                    continue
                if found is not None:
                    made.append((seen.number, reader, found))
        return made

    @remembered
    def stacks(self, number: int) -> list[tuple[Reader, list[RawFrame]]]:
        """The Python frames of a thread in each of its interpreters."""
        found = []
        for python, tstate in self._side.thread(number).tstates:
            reader = self.reader(python)
            try:
                found.append((reader, reader.frames.raw(tstate.address)))
            except GdbextError:
                continue  # reported where the stack is shown
        return found


def _seen_lock(lock: PyLock) -> SeenLock:
    # a thread in pthread_join waits for the same lock
    address = lock.address if kind_of(lock.kind).behaviour != "thread-end" else lock.owner or 0
    return SeenLock(lock.kind, address, lock.state, name=lock.name, shared=lock.shared, python=lock, why=lock.why,
                    known_by=frozenset((lock.address,)))
