"""Waits of threads that CPython has parked: for locks of objects, its own mutexes, a stopped world.

CPython 3.13 and later parks a thread at an address (`cpython.parking_lot`). The structure there is what it waits for.
Lock objects of Python programs, where threads are parked too, are for `python_locks`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gdbext.cpython.locking.critical_sections import has_critical_sections, iter_sections, object_with
from gdbext.cpython.locking.parking_lot import Parked, parked_on
from gdbext.cpython.runtime import ThreadState, not_stopped
from gdbext.cpython.stop_the_world import StopState
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory
from gdbext.locks.seen import MENTIONS, NotRecorded, SeenLock, held_by, may_be_held_by
from gdbext.model import DERIVED, WORLD_TO_GO_ON, WORLD_TO_STOP, CriticalSection
from gdbext.model.reasons import because, because_of
from gdbext.record import record
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import Python, PythonSide
from gdbext.threads.threads import SeenThread, Threads

#: Most bytes above the stack pointer that are searched for a parked thread's entry.
PARKING_SPAN = 1 << 16
_LOCKED = 1  # bit of a PyMutex (Include/cpython/lock.h)
#: Ends of the names of members where threads park, and members with several such places.
_PARKED_AT = ("_mutex", "_lock", "_once", "_once_flag")
_ARRAYS = ("weakref_locks", "brc_table")
_RW_MUTEX = "stoptheworld_mutex"  # a _PyRWMutex
_RECURSIVE = ("imports_lock", "warnings_lock")  # a _PyRecursiveMutex each
_ONCE = ("_once", "_once_flag")  # a _PyOnceFlag
#: The members that have the same offset in builds with Py_DEBUG, for which there are no tables.
_FIXED = ("interpreters_mutex", "xi_registry_mutex", "allocators_mutex", "pending_mutex", "gc_mutex", "imports_lock",
         "imports_lazy_mutex", "codecs_search_path_mutex")

_ATTACHED, _ASKED = because("in-critical-section"), because("asked-to-stop")


@record
class _World:
    """A requested stop: its state and the thread states that have to stop."""

    stop: StopState
    tstates: Sequence[ThreadState]


class _Objects:
    """Finds the objects whose locks mutexes are; each is read once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, str]] = {}

    def find(self, python: Python, mutex: int) -> tuple[int, str] | None:
        """The object (``PyObject *``) with a mutex, and the name of its type."""
        if mutex not in self._known:
            at = object_with(python.runtime.layouts, python.objects, mutex)
            if at is None:
                return None
            self._known[mutex] = at, python.objects.type_name(at)
        return self._known[mutex]


class ParkedWaits:
    """The waits in CPython's parking lot, and the locks of objects that threads hold.

    :param sections: the critical sections of each thread, by its number; None where no Python has any.
    :param holders: mutex of an object -> the threads that hold it.
    """

    def __init__(self, memory: Memory, threads: Threads, python: PythonSide, findings: Findings, objects: _Objects,
                 worlds: Sequence[tuple[Python, _World]], parked: Mapping[int, tuple[Python, Parked]],
                 sections: Mapping[int, Sequence[CriticalSection]] | None,
                 holders: Mapping[int, Collection[int]]) -> None:
        self._memory = memory
        self._threads = threads
        self._side = python
        self._findings = findings
        self._pythons = _with_parking(python)
        self._objects = objects
        self._worlds = worlds
        self._parked = parked
        self._sections = sections
        self._holders = holders
        self._members: dict[int, list[tuple[int, int, str]]] = {}
        #: The thread that each mutex (``PyMutex *``) has been handed to and that has not run since.
        self.passed_on = {each.address: number for number, (_, each) in parked.items() if each.handed_off}

    # -- critical sections -----------------------------------------------------------------------------------

    def sections(self, number: int) -> tuple[CriticalSection, ...] | None:
        """The critical sections of a thread, the innermost first; None if no thread can have any."""
        return tuple(self._sections.get(number, ())) if self._sections is not None else None

    @cached_property
    def held(self) -> Sequence[SeenLock]:
        """The locks of objects that threads hold, also those that no thread waits for."""
        found = []
        for mutex in self._holders:
            python = next(python for python in self._pythons if has_critical_sections(python.runtime.layouts))
            try:
                found.append(self._object_lock(mutex, self._objects.find(python, mutex)))
            except GdbextError as error:
                self._findings.problem(f"critical section of {mutex:#x}", "unreadable", because_of(error))
        return found

    def _object_lock(self, mutex: int, guards: tuple[int, str] | None) -> SeenLock:
        """The lock of an object, at the address of its ``ob_mutex``."""
        name = f"{guards[1]} object at {guards[0]:#x}" if guards is not None else None
        locked = bool(self._memory.read(mutex, 1)[0] & _LOCKED)
        lock = SeenLock("py-critical-section", mutex, "locked", name=name, guards=guards)
        if mutex in self.passed_on:
            return replace(lock, held=held_by((self.passed_on[mutex],)))
        holders = self._holders.get(mutex, ()) if locked else ()
        if len(holders) == 1:
            return replace(lock, held=held_by(holders, DERIVED, _ATTACHED), why=_ATTACHED)
        why = because("in-several-critical-sections" if holders else "in-no-critical-section")
        return replace(lock, state="locked" if locked else "free", held=may_be_held_by(holders), why=why)

    # -- stopping the world ----------------------------------------------------------------------------------

    def _resumed_world(self, python: Python, tstate: ThreadState) -> SeenLock | None:
        """The end of a stop, for which a thread waits that is parked at its own thread state."""
        for other, world in self._worlds:
            if other is python and any(each.address == tstate.address for each in world.tstates):
                requester = self._side.number_of_tstate.get(world.stop.requester)
                return SeenLock("stop-the-world", world.stop.address, "stopped" if world.stop.stopped else "stopping",
                                held=held_by((requester,)), name=WORLD_TO_GO_ON,
                                why=None if requester is not None else because("requester-unknown"))
        return None

    def _stopped_world(self, world: _World) -> SeenLock:
        """The stop of all other threads, for which the requesting thread waits."""
        left = not_stopped(world.stop, world.tstates)
        numbers = tuple(sorted(self._side.number_of_tstate[tstate.address] for tstate in left
                               if tstate.address in self._side.number_of_tstate))
        state = f"{world.stop.countdown} not stopped"
        lock = SeenLock("stop-the-world", world.stop.event, state, repeats=True, name=WORLD_TO_STOP, why=_ASKED)
        if len(numbers) == world.stop.countdown:
            return replace(lock, held=held_by(numbers, DERIVED, _ASKED))
        return replace(lock, held=may_be_held_by(numbers),
                       why=because("not-all-stopped", count=world.stop.countdown, seen=len(numbers)))

    # -- what a thread waits for -----------------------------------------------------------------------------

    def _just_returned(self, seen: SeenThread) -> Parked | None:
        """Where a thread was parked until a moment ago: its sleep has ended, and it has not run since.

        The thread that stops the world sleeps for a millisecond again and again. The first thread state of a thread is
        made in a stopped world, so the state of the stop does not name every requester.
        """
        call = seen.call
        if call is None or call.blocked or call.name not in ("futex", None):
            return None
        found = _find_parked(self._memory, self._side, seen, call.arguments[0])
        return found[1] if found is not None else None

    def parked(self, seen: SeenThread) -> Parked | None:
        """Where a thread is parked; None if it is not parked."""
        found = self._parked.get(seen.number)
        return found[1] if found is not None else None

    def is_over(self, seen: SeenThread) -> bool:
        """Whether a thread has been handed the mutex that it was parked for, and has not run since."""
        parked = self.parked(seen)
        return parked is not None and parked.handed_off

    def find_lock(self, seen: SeenThread) -> SeenLock | None:
        """What a thread waits for that is parked, or that stops the world; None for any other thread."""
        if not self._pythons:
            return None
        found = self._parked.get(seen.number)
        if found is not None:
            return self._lock_at(*found, seen) if not found[1].handed_off else None
        if seen.futex is not None:
            return None
        returned = self._just_returned(seen) if self._worlds else None
        for _, world in self._worlds:
            if returned is not None and returned.address == world.stop.event and not world.stop.stopped:
                return self._stopped_world(world)
        # it waits for a millisecond and checks again, and may be stopped between the two
        return next((self._stopped_world(world) for _, world in self._worlds if not world.stop.stopped
                     and self._side.number_of_tstate.get(world.stop.requester) == seen.number), None)

    def _lock_at(self, python: Python, parked: Parked, seen: SeenThread) -> SeenLock:
        layouts, address = python.runtime.layouts, parked.address
        for owner, tstate in self._side.thread(seen.number).tstates:
            if owner is python and address == tstate.address + layouts["PyThreadState"].offset("state"):
                resumed = self._resumed_world(python, tstate)
                if resumed is not None:
                    return resumed
        for _, world in self._worlds:
            if address == world.stop.event:
                return self._stopped_world(world)
        try:
            return self._mutex(python, parked)
        except GdbextError as error:
            return SeenLock("py-mutex", address, "unknown", why=because("lock-unreadable", error=str(error)))

    def _mutex(self, python: Python, parked: Parked) -> SeenLock:
        address = parked.address
        member = self._member(python, address) or ""
        if member.endswith(_RW_MUTEX):
            return self._rw_mutex(address, member)
        if member.endswith(_ONCE):
            return SeenLock("once", address, "running", name=member, why=because("records-no-owner", what="once-flag"))
        if not parked.is_mutex:
            return SeenLock("py-event", address, "not set", name=member or None, why=because("event-has-no-owner"))
        guards = self._objects.find(python, address) if not member else None
        if guards is not None:
            return self._object_lock(address, guards)
        locked = bool(self._memory.read(address, 1)[0] & _LOCKED)
        owner = self.passed_on.get(address)
        if owner is None and member.endswith(_RECURSIVE):
            owner = self._owner_of_recursive(python, address)
        if owner is not None:
            return SeenLock("py-mutex", address, "locked", held=held_by((owner,)), name=member or None)
        return SeenLock("py-mutex", address, "locked" if locked else "free", name=member or None,
                        held=NotRecorded(MENTIONS), why=because("records-no-owner", what="py-mutex"))

    def _rw_mutex(self, address: int, name: str) -> SeenLock:
        # bit 0: a writer; from bit 2 on: the number of readers (Include/internal/pycore_lock.h)
        bits = int.from_bytes(self._memory.read(address, 8), "little")
        state = "write-locked" if bits & 1 else f"read-locked by {bits >> 2}" if bits >> 2 else "free"
        return SeenLock("py-mutex", address, state, name=name, why=because("records-no-owner", what="rw-mutex"))

    def _owner_of_recursive(self, python: Python, address: int) -> int | None:
        layouts = python.runtime.layouts
        if not layouts.has("_PyRecursiveMutex", "thread"):
            return None
        owner, = layouts["_PyRecursiveMutex"].reader("thread")(self._memory, address)
        return self._threads.number_of_pthread.get(owner)

    def _member(self, python: Python, address: int) -> str | None:
        known = self._members.get(id(python))
        if known is None:
            known = self._members[id(python)] = list(self._iter_members(python))
        return next((name for start, end, name in known if start <= address < end), None)

    @staticmethod
    def _iter_members(python: Python) -> Iterator[tuple[int, int, str]]:
        """(start, end, name) of the members where threads may park."""
        layouts = python.runtime.layouts
        places = [("PyInterpreterState", interpreter.address) for interpreter in python.interpreters]
        places.append(("_PyRuntimeState", python.runtime.address))
        for structure, base in places:
            for name, field in layouts[structure].fields.items() if structure in layouts else ():
                start = base + field.offset
                if layouts.build != "free-threaded" and name not in _FIXED:
                    continue
                if name.endswith(_PARKED_AT) or name in _ARRAYS:
                    yield start, start + field.size, f"{structure}.{name}"
                elif name == "stoptheworld" and "_stoptheworld_state" in layouts:
                    start += layouts["_stoptheworld_state"].offset("mutex")
                    yield start, start + 1, f"{structure}.stoptheworld.mutex"


def _with_parking(side: PythonSide) -> list[Python]:
    return [python for python in side.pythons if "wait_entry" in python.runtime.layouts]


def read_parked(memory: Memory, threads: Threads, side: PythonSide, findings: Findings) -> ParkedWaits:
    """Read where threads are parked, which worlds are stopped, and the critical sections that threads are in."""
    pythons = _with_parking(side)
    worlds = [(python, world) for python in pythons for world in _read_worlds(memory, python)]
    parked: dict[int, tuple[Python, Parked]] = {}
    objects = _Objects()
    has_sections = any(has_critical_sections(python.runtime.layouts) for python in pythons)
    sections: dict[int, list[CriticalSection]] = {}
    holders: dict[int, set[int]] = {}
    for seen in threads if pythons else ():
        # parked threads sleep on a semaphore, of which they expect the value 0
        if seen.futex is not None and not seen.futex.expected:
            found = _find_parked(memory, side, seen, seen.futex.address)
            if found is not None:
                parked[seen.number] = found
        for python, tstate in side.thread(seen.number).tstates if has_sections else ():
            try:
                for section in _read_sections(memory, python, tstate, objects):
                    sections.setdefault(seen.number, []).append(section)
                    if tstate.state == "attached" and section.active and section.mutex is not None:
                        holders.setdefault(section.mutex, set()).add(seen.number)
            except GdbextError as error:
                findings.problem(f"thread {seen.number}", "unreadable", because_of(error, "critical-sections"))
    return ParkedWaits(memory, threads, side, findings, objects, worlds, parked,
                       sections if has_sections else None, holders)


def _read_sections(memory: Memory, python: Python, tstate: ThreadState,
                   objects: _Objects) -> Iterator[CriticalSection]:
    layouts = python.runtime.layouts
    if has_critical_sections(layouts):
        for section in iter_sections(memory, layouts, tstate.address):
            for mutex in section.mutexes or (None,):
                at, kind = (objects.find(python, mutex) if mutex is not None else None) or (None, None)
                yield CriticalSection(mutex, at, kind, section.active)


def _read_worlds(memory: Memory, python: Python) -> Iterator[_World]:
    for interpreter in python.interpreters:
        if interpreter.stop_the_world is not None and interpreter.stop_the_world.requested:
            yield _World(interpreter.stop_the_world, interpreter.threads)
    stop = python.runtime.stop_the_world(memory)
    if stop is not None and stop.requested:
        yield _World(stop, [tstate for interpreter in python.interpreters for tstate in interpreter.threads])


def _find_parked(memory: Memory, side: PythonSide, seen: SeenThread, futex: int) -> tuple[Python, Parked] | None:
    """Where a thread is parked that sleeps on a word, and the runtime that has parked it."""
    for python in [python for python, _ in side.thread(seen.number).tstates] or _with_parking(side):
        parked = parked_on(memory, python.runtime.layouts, futex, seen.sp, seen.sp + PARKING_SPAN)
        if parked is not None:
            return python, parked
    return None
