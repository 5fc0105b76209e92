"""Finds the Python lock that a thread sleeps in, among the objects that its innermost frames refer to.

A `_thread.lock` is found first, then the object that contains it. A thread in ``Event.wait`` sleeps in a lock that the
`Condition` has made for this thread alone, and waits for the `Event`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.locking.locks import LockReader, PyLock
from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import InterpreterState
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.model.standard_library import TAKES_FOR_CALLERS, module_of

#: Number of innermost frames that are read, and of those in which a lock's word is searched for.
DEPTH = 8
_SEARCHED = 2
#: Largest number of attributes of a frame's variables that are read.
_MAX_ATTRIBUTES = 256
_STANDARD_FILES = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")


class WaitedLocks:
    """Recognises the locks that threads of one runtime sleep in.

    :param interpreters: the interpreters of the runtime.
    :param pthreads: ``pthread_self()`` of the threads of the process.
    """

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects, frames: FrameReader, locks: LockReader,
                 interpreters: Sequence[InterpreterState], pthreads: Collection[int]) -> None:
        self._memory = memory
        self._layouts = layouts
        self._objects = objects
        self._frames = frames
        self._locks = locks
        self._interpreters = interpreters
        self._pthreads = pthreads

    def find(self, word: int, stack: Sequence[RawFrame],
             native: Callable[[], Iterable[int]] = tuple,
             kept: Callable[[], Iterable[int]] = tuple) -> tuple[PyLock, int, list[int]] | None:
        """The Python lock that a thread waits for when it sleeps on a word or is parked there, or None.

        :param stack: the innermost frames of the thread.
        :param native: returns words of the native stack, for compiled code that called the interpreter: it keeps its
            pointer to the object while the thread waits.
        :param kept: the same and registers, where the interpreter waits for compiled code, which may keep only a
            pointer to the first member behind the object's header.
        :return: the lock; the index of the innermost frame outside the lock's own code; and the objects
            (``PyObject *``) that led to the lock, the outermost first.
        """
        found = self._in_frames(word, stack)
        if found is None:
            lock = self._without_frames(word) or self._among(native(), word, set()) or self._kept(kept(), word)
            found = (lock, 0) if lock is not None else None
        return self._whole(*found, stack) if found is not None else None

    def is_called_from_python(self, word: int, stack: Sequence[RawFrame]) -> bool:
        """Whether a Python frame of the thread refers to the lock that it waits for."""
        return self._in_frames(word, stack) is not None

    # -- the object that the word belongs to -----------------------------------------------------------------

    def _in_frames(self, word: int, stack: Sequence[RawFrame]) -> tuple[PyLock, int] | None:
        seen: set[int] = set()
        # variables first: values that earlier calls left on the value stack may be freed, and their memory reused
        ways: tuple[Callable[[RawFrame], Iterable[int]], ...] = (
            self._frames.variable_values, self._frames.stack_values, self._attributes)
        for index, raw in enumerate(stack[:_SEARCHED]):
            for values in ways:
                try:
                    # the object that is called now was most likely pushed last
                    found = self._among([value for value in values(raw) if value][::-1], word, seen)
                except GdbextError:
                    continue
                if found is not None:
                    return found, index
        return None

    def _attributes(self, raw: RawFrame) -> list[int]:
        found: list[int] = []
        for value in self._frames.variable_values(raw):
            try:
                found += [attribute for _, attribute in self._objects.attributes(value)] if value else []
            except GdbextError:
                continue
            if len(found) > _MAX_ATTRIBUTES:
                break
        return found

    def _among(self, values: Iterable[int], word: int, seen: set[int]) -> PyLock | None:
        for value in values:
            if value in seen:
                continue
            seen.add(value)
            try:
                lock = self._behind(value)
            except GdbextError:
                continue  # left on the value stack by an earlier call
            if lock is not None and word in lock.words:
                return lock
        return None

    def _kept(self, words: Iterable[int], word: int) -> PyLock | None:
        header = self._locks.header
        starts = [start for at in words for start in (at, at - header) if self._has_word(start + header, word)]
        return self._among(starts, word, set())

    @if_unreadable(False)
    def _has_word(self, address: int, word: int) -> bool:
        """Whether the first member of an object points to the lock that a thread sleeps in."""
        return read_u64(self._memory, address) == word

    def _behind(self, value: int) -> PyLock | None:
        """The lock that an object is, that a method belongs to, or that protects the file below a text file."""
        owner, _ = self._objects.bound_method(value)
        value = owner or value
        if self._objects.type_name(value) == "_io.TextIOWrapper":
            value = self._locks.buffer_of(value)
        return self._locks.decode(value) if value else None

    def _without_frames(self, word: int) -> PyLock | None:
        if "ThreadHandle" in self._layouts:
            # the address of a parking place identifies the object around it
            for at in (self._locks.object_at, self._locks.handle_at):
                try:
                    found = at(word)
                except GdbextError:
                    continue
                if found is not None and (found.kind != "thread-exit" or found.owner in self._pthreads):
                    return found
        return self._standard_files.get(word) or self._ends.get(word)

    @cached_property
    def _ends(self) -> Mapping[int, PyLock]:
        """Up to CPython 3.12: the locks that are released when their threads end, by word."""
        ends: dict[int, PyLock] = {}
        if not self._layouts.has("PyThreadState", "on_delete_data"):
            return ends
        for tstate in [tstate for interpreter in self._interpreters for tstate in interpreter.threads]:
            try:
                reference = self._objects.read_member("PyThreadState", tstate.address, "on_delete_data")
                if not reference:
                    continue
                lock = self._locks.decode(self._objects.read_member("PyWeakReference", reference, "wr_object"))
                if lock is not None and lock.kind == "py-lock":
                    ends[lock.words[0]] = replace(lock, kind="thread-exit", state="running", owner=tstate.thread_id)
            except GdbextError:
                continue
        return ends

    @cached_property
    def _standard_files(self) -> Mapping[int, PyLock]:
        """The locks of `sys.stdout` and the like, by word."""
        files: dict[int, PyLock] = {}
        for interpreter in self._interpreters:
            try:
                system = self._objects.read_member("PyInterpreterState", interpreter.address, "sysdict")
                for name in _STANDARD_FILES:
                    file = self._objects.dict_get(system, name)
                    lock = self._behind(file) if file else None
                    if lock is not None and lock.words:
                        files[lock.words[0]] = replace(lock, name=f"sys.{name}")
            except GdbextError:
                continue
        return files

    # -- the object that contains the lock -------------------------------------------------------------------

    def _whole(self, base: PyLock, index: int, stack: Sequence[RawFrame]) -> tuple[PyLock, int, list[int]]:
        lock, path = base, [base.address, *([base.guard] if base.guard else [])]
        while index < len(stack) and module_of(stack[index].frame.file) in TAKES_FOR_CALLERS:
            try:
                me = self._frames.variable(stack[index], "self")
                if me and me not in path:
                    outer = self._around(lock, me, stack[index])
                    if outer is None:
                        break
                    lock = outer
                    path.insert(0, me)
            except GdbextError:
                break
            if not me:
                break
            index += 1
        if lock.kind == "py-lock":
            lock = self._ends.get(lock.words[0], lock)
        return lock, index, path

    def _around(self, lock: PyLock, me: int, raw: RawFrame) -> PyLock | None:
        """The lock that a thread waits for when a method of an object sleeps in `lock`; None if they are unrelated."""
        if lock.kind == "py-condition":
            return self._locks.waited_through(me, lock.address)
        found = self._locks.decode(me)
        if found is None:
            return None
        if found.kind == "py-condition":
            # each thread that waits for a Condition sleeps in a lock of its own
            if raw.frame.function == "wait" and self._frames.variable(raw, "waiter") == lock.address:
                return found
            return lock if found.guard == lock.address else None
        return found if lock.address in (found.guard, found.address) else None
