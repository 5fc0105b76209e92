"""What threads wait for that are parked by CPython itself: locks of objects, its own mutexes, a stopped world.

CPython 3.13 and later parks a thread at an address (`cpython.parking_lot`); what lies there tells what it waits for.
Python's lock objects, which are parked at too, are for `python_locks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gdbext.cpython.critical_sections import has_critical_sections, iter_sections, object_with
from gdbext.cpython.parking_lot import Parked, parked_on
from gdbext.cpython.runtime import ThreadState
from gdbext.cpython.stop_the_world import StopState, not_stopped
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory
from gdbext.model import DERIVED, WORLD_TO_GO_ON, WORLD_TO_STOP, CriticalSection
from gdbext.model.reasons import because, because_of
from gdbext.record import record
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import Python, PythonSide
from gdbext.threads.threads import SeenThread, Threads
from gdbext.waits.seen import MENTIONS, SeenLock, SeenWait, held_by

if TYPE_CHECKING:
    from gdbext.waits.context import Context

#: How far above the stack pointer a parked thread's entry is looked for, in bytes.
PARKING_SPAN = 1 << 16
_LOCKED = 1  # bit of a PyMutex (Include/cpython/lock.h)
#: What the names of members end with that threads park at, and members that have several such places.
_PARKED_AT = ("_mutex", "_lock", "_once", "_once_flag")
_ARRAYS = ("weakref_locks", "brc_table")
_RW_MUTEX = "stoptheworld_mutex"  # a _PyRWMutex
_RECURSIVE = ("imports_lock", "warnings_lock")  # a _PyRecursiveMutex each
_ONCE = ("_once", "_once_flag")  # a _PyOnceFlag
#: The members that lie where the tables say in builds with Py_DEBUG too, which have no tables of their own.
_FIRM = ("interpreters_mutex", "xi_registry_mutex", "allocators_mutex", "pending_mutex", "gc_mutex", "imports_lock",
         "imports_lazy_mutex", "codecs_search_path_mutex")

_ATTACHED, _ASKED = because("in-critical-section"), because("asked-to-stop")


@record
class _World:
    """A stop that was asked for: its state and the thread states that it is about."""

    stop: StopState
    tstates: Sequence[ThreadState]


class ParkedWaits:
    """The waits of CPython's own parking lot, and the locks of objects that threads hold."""

    def __init__(self, memory: Memory, threads: Threads, python: PythonSide, findings: Findings,
                 worlds: Sequence[tuple[Python, _World]], parked: Mapping[int, tuple[Python, Parked]]) -> None:
        self._memory = memory
        self._threads = threads
        self._side = python
        self._findings = findings
        self._pythons = _with_parking(python)
        self._worlds = worlds
        self._parked = parked
        self._members: dict[int, list[tuple[int, int, str]]] = {}
        #: The thread that each mutex (``PyMutex *``) has been passed on to, which has not run since.
        self.passed_on = {each.address: number for number, (_, each) in parked.items() if each.handed_off}
        #: The object (``PyObject *``) and its type's name, by the mutex that is its lock.
        self.objects: dict[int, tuple[int, str]] = {}
        self._sections: dict[int, tuple[CriticalSection, ...]] = {}
        # mutex of an object -> threads that have it
        self._held: dict[int, set[int]] = {}

    # -- critical sections -----------------------------------------------------------------------------------

    def read_sections(self) -> None:
        """Read the critical sections that threads are in."""
        for seen in self._threads if self._pythons else ():
            self._read_sections(seen)

    def _read_sections(self, seen: SeenThread) -> None:
        found: list[CriticalSection] = []
        for python, tstate in self._side.thread(seen.number).tstates:
            layouts = python.runtime.layouts
            if not has_critical_sections(layouts):
                continue
            try:
                for section in iter_sections(self._memory, layouts, tstate.address):
                    for mutex in section.mutexes or (None,):
                        found.append(self._section(python, mutex, section.active))
                        if section.active and mutex is not None and tstate.state == "attached":
                            self._held.setdefault(mutex, set()).add(seen.number)
            except GdbextError as error:
                self._findings.problem(f"thread {seen.number}", "unreadable", because_of(error, "critical-sections"))
        if found:
            self._sections[seen.number] = tuple(found)

    def _section(self, python: Python, mutex: int | None, active: bool) -> CriticalSection:
        at, kind = self._object(python, mutex) if mutex is not None else (None, None)
        return CriticalSection(mutex, at, kind, active)

    def _object(self, python: Python, mutex: int) -> tuple[int, str] | tuple[None, None]:
        """The object whose lock a mutex is, and the name of its type."""
        if mutex not in self.objects:
            at = object_with(python.runtime.layouts, python.objects, mutex)
            if at is None:
                return None, None
            self.objects[mutex] = at, python.objects.type_name(at)
        return self.objects[mutex]

    def sections(self, number: int) -> tuple[CriticalSection, ...] | None:
        """The critical sections of a thread, the innermost first; None where no thread has any ever."""
        if not any(has_critical_sections(python.runtime.layouts) for python in self._pythons):
            return None
        return self._sections.get(number, ())

    def held(self) -> Iterator[SeenLock]:
        """The locks of objects that threads hold, whether anybody waits or not."""
        for mutex in self._held:
            python = next(python for python in self._pythons if has_critical_sections(python.runtime.layouts))
            try:
                yield self._object_lock(python, mutex)
            except GdbextError as error:
                self._findings.problem(f"critical section of {mutex:#x}", "unreadable", because_of(error))

    def _object_lock(self, python: Python, mutex: int) -> SeenLock:
        """The lock of an object, at the address of its ``ob_mutex``."""
        at, kind = self._object(python, mutex)
        name = f"{kind} object at {at:#x}" if at is not None else None
        locked = bool(self._memory.read(mutex, 1)[0] & _LOCKED)
        if mutex in self.passed_on:
            return SeenLock("py-critical-section", mutex, "locked", holders=held_by((self.passed_on[mutex],)),
                            name=name)
        holders = self._held.get(mutex, set()) if locked else set()
        if len(holders) == 1:
            return SeenLock("py-critical-section", mutex, "locked", holders=held_by(holders, DERIVED, _ATTACHED),
                        name=name, why=_ATTACHED)
        why = because("in-several-critical-sections" if holders else "in-no-critical-section")
        return SeenLock("py-critical-section", mutex, "locked" if locked else "free", candidates=tuple(sorted(holders)),
                    name=name, why=why)

    # -- stopping the world ----------------------------------------------------------------------------------

    def _going_on(self, python: Python, tstate: ThreadState) -> SeenLock | None:
        """What a thread waits for that is parked at its own thread state: the end of the stop that is about it."""
        for other, world in self._worlds:
            if other is python and any(about.address == tstate.address for about in world.tstates):
                requester = self._side.number_of_tstate.get(world.stop.requester)
                return SeenLock("stop-the-world", world.stop.address, "stopped" if world.stop.stopped else "stopping",
                            holders=held_by((requester,)), name=WORLD_TO_GO_ON,
                            why=None if requester is not None else because("requester-unknown"))
        return None

    def _stopping(self, world: _World) -> SeenLock:
        """What the thread waits for that has asked all others to stop."""
        left = not_stopped(world.stop, world.tstates)
        numbers = tuple(sorted(self._side.number_of_tstate[tstate.address] for tstate in left
                               if tstate.address in self._side.number_of_tstate))
        state = f"{world.stop.countdown} not stopped"
        if len(numbers) == world.stop.countdown:
            return SeenLock("stop-the-world", world.stop.event, state, holders=held_by(numbers, DERIVED, _ASKED),
                        repeats=True, name=WORLD_TO_STOP, why=_ASKED)
        return SeenLock("stop-the-world", world.stop.event, state, repeats=True, candidates=numbers, name=WORLD_TO_STOP,
                    why=because("not-all-stopped", count=world.stop.countdown, seen=len(numbers)))

    # -- what a thread waits for -----------------------------------------------------------------------------

    def _just_returned(self, seen: SeenThread) -> Parked | None:
        """Where a thread was parked until a moment ago: its sleep has ended, and it has not run since.

        Who stops the world sleeps for a millisecond again and again; the first thread state of a thread is made in a
        stopped world, so that the state of the stop does not name every requester.
        """
        call = seen.call
        if call is None or call.blocked or call.name not in ("futex", None):
            return None
        found = _parked_at(self._memory, self._side, seen, call.arguments[0])
        return found[1] if found is not None else None

    def parked(self, seen: SeenThread) -> Parked | None:
        """Where a thread is parked, None if it is not."""
        found = self._parked.get(seen.number)
        return found[1] if found is not None else None

    def is_over(self, seen: SeenThread) -> bool:
        """Whether a thread has been given the mutex that it was parked for, and has only not run since."""
        parked = self.parked(seen)
        return parked is not None and parked.handed_off

    def view(self, seen: SeenThread) -> SeenLock | None:
        """What a thread waits for that is parked, or that stops the world; None for any other."""
        if not self._pythons:
            return None
        found = self._parked.get(seen.number)
        if found is not None:
            return self._view(*found, seen) if not found[1].handed_off else None
        if seen.futex is not None:
            return None
        returned = self._just_returned(seen)
        for _, world in self._worlds:
            if returned is not None and returned.address == world.stop.event and not world.stop.stopped:
                return self._stopping(world)
        # it waits for a millisecond, looks again, and may be caught between the two
        return next((self._stopping(world) for _, world in self._worlds if not world.stop.stopped
                     and self._side.number_of_tstate.get(world.stop.requester) == seen.number), None)

    def _view(self, python: Python, parked: Parked, seen: SeenThread) -> SeenLock:
        layouts, address = python.runtime.layouts, parked.address
        for owner, tstate in self._side.thread(seen.number).tstates:
            if owner is python and address == tstate.address + layouts["PyThreadState"].offset("state"):
                going_on = self._going_on(python, tstate)
                if going_on is not None:
                    return going_on
        for _, world in self._worlds:
            if address == world.stop.event:
                return self._stopping(world)
        try:
            return self._mutex(python, parked)
        except GdbextError as error:
            return SeenLock("py-mutex", address, "unknown", why=because("lock-unreadable", error=str(error)))

    def _mutex(self, python: Python, parked: Parked) -> SeenLock:
        address = parked.address
        member = self._member(python, address)
        if member is not None and member.endswith(_RW_MUTEX):
            return self._rw_mutex(address, member)
        if member is not None and member.endswith(_ONCE):
            return SeenLock("once", address, "running", name=member, why=because("records-no-owner", what="once-flag"))
        if not parked.is_mutex:
            return SeenLock("py-event", address, "not set", name=member, why=because("event-has-no-owner"))
        if member is None and self._object(python, address)[0] is not None:
            return self._object_lock(python, address)
        locked = bool(self._memory.read(address, 1)[0] & _LOCKED)
        view = SeenLock("py-mutex", address, "locked" if locked else "free", name=member, find_holders=MENTIONS,
                    why=because("records-no-owner", what="py-mutex"))
        if address in self.passed_on:
            return SeenLock("py-mutex", address, "locked", holders=held_by((self.passed_on[address],)), name=member)
        if member is not None and member.endswith(_RECURSIVE):
            owner = self._owner_of_recursive(python, address)
            if owner is not None:
                return SeenLock("py-mutex", address, "locked", holders=held_by((owner,)), name=member)
        return view

    def _rw_mutex(self, address: int, name: str) -> SeenLock:
        # a writer is bit 0, readers are counted above bit 1 (Include/internal/pycore_lock.h)
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
        """The member of an interpreter or of the runtime that lies at an address."""
        known = self._members.get(id(python))
        if known is None:
            known = self._members[id(python)] = list(self._iter_members(python))
        return next((name for start, end, name in known if start <= address < end), None)

    @staticmethod
    def _iter_members(python: Python) -> Iterator[tuple[int, int, str]]:
        """(start, end, name) of what threads may park at."""
        layouts = python.runtime.layouts
        places = [("PyInterpreterState", interpreter.address) for interpreter in python.interpreters]
        places.append(("_PyRuntimeState", python.runtime.address))
        for structure, base in places:
            for name, field in layouts[structure].fields.items() if structure in layouts else ():
                start = base + field.offset
                if layouts.build != "free-threaded" and name not in _FIRM:
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
    for seen in threads if pythons else ():
        if seen.futex is not None and not seen.futex.expected:  # who is parked sleeps on a semaphore: expects 0
            found = _parked_at(memory, side, seen, seen.futex.address)
            if found is not None:
                parked[seen.number] = found
    made = ParkedWaits(memory, threads, side, findings, worlds, parked)
    made.read_sections()
    return made


def _read_worlds(memory: Memory, python: Python) -> Iterator[_World]:
    for interpreter in python.interpreters:
        if interpreter.stop_the_world is not None and interpreter.stop_the_world.requested:
            yield _World(interpreter.stop_the_world, interpreter.threads)
    stop = python.runtime.stop_the_world(memory)
    if stop is not None and stop.requested:
        yield _World(stop, [tstate for interpreter in python.interpreters for tstate in interpreter.threads])


def _parked_at(memory: Memory, side: PythonSide, seen: SeenThread, futex: int) -> tuple[Python, Parked] | None:
    """Where a thread is parked that sleeps on a word, and by which runtime."""
    low = seen.sp
    for python in [python for python, _ in side.thread(seen.number).tstates] or _with_parking(side):
        parked = parked_on(memory, python.runtime.layouts, futex, low, low + PARKING_SPAN)
        if parked is not None:
            return python, parked
    return None


def parked_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's wait in CPython's parking lot, or for a world to stop."""
    view = context.parked.view(seen)
    if view is None:
        return None
    timed = not view.repeats and seen.futex is not None and seen.futex.timed
    return SeenWait(None, view, timed, mode=view.mode)
