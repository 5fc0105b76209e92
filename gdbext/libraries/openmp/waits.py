"""Waits of threads inside an OpenMP run-time library: for barriers of teams, critical sections, locks and tasks.

No such lock records an owner. A barrier counts the missing threads, and libgomp records the team of each thread, so
the missing threads are the members of the team that do not sleep there, if their number is the same. The holder of a
critical section is the thread whose stack is between its start and its end.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gdbext.arch.protocol import Architecture
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import GdbextError, if_unreadable
from gdbext.glibc.futex import FUTEX_WAIT, FutexWait
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.select import libgomp_layouts
from gdbext.layout.table import Layouts
from gdbext.libraries.openmp.libgomp import (
    MUTEX_WAITED_FOR,
    POINTER_LOCK_WAITED_FOR,
    SEMAPHORE_WAITED_FOR,
    BarrierState,
    TeamPlaces,
    find_barrier,
    find_team_places,
    is_libgomp,
    iter_teams,
    owner_of_nest_lock,
    runs_task,
    team_of_barrier,
)
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.scene import Scene
from gdbext.locks.seen import Orphaned, SeenLock, for_purpose, held_by, may_be_held_by
from gdbext.model import INFERRED
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.runtimes.names import public_name
from gdbext.threads.mentions import Mentions
from gdbext.threads.sections import Section, Sections
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads

BARRIER: Final = "openmp-barrier"
LOCK: Final = "openmp-lock"
#: Start -> end of a critical section. The functions of the second pair have the section's name as their argument.
_SECTIONS = {"GOMP_critical_start": "GOMP_critical_end", "GOMP_critical_name_start": "GOMP_critical_name_end"}
_NAMELESS = "GOMP_critical_start"
_NEST = "omp_set_nest_lock"
_TASKS_LEFT = because("tasks-left")
#: LLVM's OpenMP, and Intel's, which is the same library.
_LIBOMP = re.compile(r"^lib(?:omp|iomp5)(?:-[0-9a-f]+)?\.so[.0-9]*$")
#: Prefixes of its functions that a program calls.
_ENTRIES = ("__kmpc_", "GOMP_", "omp_", "kmp_")


@record
class _Library:
    """One libgomp of a process, which may have several: the system's, and copies in wheels.

    `members` has the numbers of the threads of each team, `team_of` the innermost team of each thread. `places` is None
    if the code of this libgomp does not show where it records the team of a thread.
    """

    module: Module
    places: TeamPlaces | None
    members: Mapping[int, set[int]]
    team_of: Mapping[int, int]


def _read_library(cpu: Architecture, memory: Memory, module: Module, threads: Threads, layouts: Layouts) -> _Library:
    members: dict[int, set[int]] = {}
    team_of: dict[int, int] = {}
    places = find_team_places(cpu, memory, module)
    for seen in threads:
        if not seen.thread_pointer or places is None:
            continue
        try:
            for team in iter_teams(memory, layouts, places, seen.thread_pointer):
                team_of.setdefault(seen.number, team)
                members.setdefault(team, set()).add(seen.number)
        except GdbextError:
            continue  # its team then has too few members to know which are missing
    return _Library(module, places, members, team_of)


class OpenMP(LibraryWaits):
    """The waits of threads inside OpenMP libraries, which are read when the first thread sleeps in one."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._sites = Sites(scene.memory, scene.code, ())
        self._mentions = Mentions(scene.target, scene.code, scene.threads)
        self._sections = Sections(scene.memory, scene.code)
        self._libraries: dict[str, _Library | None] = {}
        self._known: dict[tuple[int, int], SeenLock | None] = {}

    def find_lock(self, seen: SeenThread, futex: FutexWait) -> SeenLock | None:
        """What a thread waits for that sleeps on a futex word of libgomp; None for any other wait."""
        library = self._library(self._pc(seen))
        if library is None or futex.command != FUTEX_WAIT:
            return None
        key = (futex.address, futex.expected)
        if key not in self._known:
            try:
                found = self._read_lock(library, seen, futex)
                if found is not None and found.holders:
                    numbers = [holder.thread for holder in found.holders]
                    found = replace(found, held=held_by(numbers, INFERRED, found.why))
                self._known[key] = found
            except GdbextError:
                self._known[key] = None
        return self._known[key]

    def find_purpose(self, seen: SeenThread, event: SeenLock) -> SeenLock | None:
        """The condition variable, with what a thread of LLVM's or Intel's OpenMP waits for; None for any other one."""
        purpose = self.describe_condvar_wait(seen)
        return for_purpose(event, purpose) if purpose is not None else None

    def describe_condvar_wait(self, seen: SeenThread) -> Reason | None:
        """Where in LLVM's or Intel's OpenMP a thread waits that sleeps on a condition variable; None if in neither.

        Each of its threads sleeps on a condition variable of its own, whatever it waits for, so the thread that it
        waits for is not known. To wait for critical sections and locks, threads call ``sched_yield`` in a loop.
        """
        native = seen.native(self._code)
        depth = next((i for i, (pc, _) in enumerate(native) if not self._sites.in_runtime(pc)), len(native))
        modules = [self._code.module(pc) for pc, _ in native[:depth]]
        library = next((module for module in modules if module and _LIBOMP.match(module.name)), None)
        if library is None or modules[-1] is library and depth == len(native):  # or the stack is cut off
            return None
        names = [self._code.symbol(pc, i).function for i, (pc, _) in enumerate(native[:depth]) if modules[i] is library]
        if depth < len(native):
            target = self._code.cpu.called(self._memory, native[depth][0])
            names.append(self._code.symbol(target).function if target is not None else None)
        # a function that ends with the wait is not on the stack: then perhaps only the library is
        name = next((name for name in names if name and name.startswith(_ENTRIES)), None)
        if name is not None:
            return because("openmp-worker-in", library=library.name, function=public_name(name))
        return because("openmp-worker-idle" if depth == len(native) else "openmp-worker", library=library.name)

    # -- libraries, sleepers -----------------------------------------------------------------------------------

    def _library(self, pc: int) -> _Library | None:
        module = self._code.module(pc)
        if module is None:
            return None
        if module.path not in self._libraries:
            self._libraries[module.path] = self._read(module) if is_libgomp(module) else None
        return self._libraries[module.path]

    def _pc(self, seen: SeenThread) -> int:
        """The program counter of the innermost frame outside of the C library's function for system calls.

        libgomp makes system calls by itself on x86-64, and by that function on arm64 (GCC 12
        libgomp/config/linux/futex.h).
        """
        if self._code.symbol(seen.pc).function != "syscall":
            return seen.pc
        return next((pc for pc, _ in seen.native(self._code)[1:2]), seen.pc)

    def _read(self, module: Module) -> _Library | None:
        try:
            return _read_library(self._code.cpu, self._memory, module, self._threads, self._layouts)
        except GdbextError:
            return None

    @functools.cached_property
    def _layouts(self) -> Layouts:
        return libgomp_layouts(self._target.architecture)

    @functools.cached_property
    def _asleep(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for seen in self._threads:
            if seen.futex is not None:
                found.setdefault(seen.futex.address, set()).add(seen.number)
        return found

    @functools.cached_property
    def _readable(self) -> list[SeenThread]:
        return [seen for seen in self._threads if not seen.unavailable]

    @functools.cached_property
    def _all_numbers(self) -> set[int]:
        return {seen.number for seen in self._readable}

    def _inside(self, library: _Library, seen: SeenThread) -> bool:
        return self._code.module(self._pc(seen)) is library.module

    def _users(self, library: _Library, among: Collection[int]) -> set[int]:
        """The threads that have a frame of a libgomp on their stacks: its pool, and its callers."""
        return {seen.number for seen in self._readable if seen.number in among
                and any(self._code.module(pc) is library.module for pc, _ in seen.native(self._code))}

    def _is_pooled(self, library: _Library, seen: SeenThread) -> bool:
        """Whether a thread inside libgomp was started by it and runs nothing else."""
        native = seen.native(self._code)
        # without the C library's function for system calls
        native = native[next((i for i, (pc, _) in enumerate(native) if pc == self._pc(seen)), 0):]
        depth = next((i for i, (pc, _) in enumerate(native) if self._code.module(pc) is not library.module), None)
        return depth is not None and all(self._sites.in_runtime(pc) for pc, _ in native[depth:])

    # -- what a thread sleeps on -------------------------------------------------------------------------------

    def _read_lock(self, library: _Library, seen: SeenThread, futex: FutexWait) -> SeenLock | None:
        if futex.expected == MUTEX_WAITED_FOR:
            if _NEST in self._sites.site(seen.native(self._code)).functions:
                return self._nest_lock(library, futex.address)
            return self._mutex(library, futex.address)
        if futex.expected == SEMAPHORE_WAITED_FOR:
            return self._semaphore(library, seen, futex.address)
        barrier = find_barrier(self._memory, self._layouts, futex.address, futex.expected)
        if barrier is not None:
            return self._barrier(library, barrier, self._asleep[futex.address])
        if futex.expected == POINTER_LOCK_WAITED_FOR:
            return self._mentioned(futex.address, because("records-no-owner", what="libgomp-lock"))
        return None

    def _barrier(self, library: _Library, barrier: BarrierState, sleepers: Collection[int]) -> SeenLock:
        arrived = f"{barrier.total - barrier.missing} of {barrier.total} arrived"
        if barrier.passed:
            return SeenLock(BARRIER, barrier.address, arrived, why=because("all-arrived"))
        try:
            team = team_of_barrier(self._memory, self._layouts, barrier)
        except GdbextError:
            team = None
        members = self._members(library, team) if team is not None else set()
        if team is None or not members:
            return self._pool_barrier(library, barrier, arrived, sleepers)
        # a thread that runs inside libgomp is entering the barrier or leaving it
        missing = [number for number in sorted(members.difference(sleepers))
                   if not self._is_passing(library, number)]
        if barrier.tasks_left:
            return self._tasks_left(barrier, members, missing)
        return (self._orphaned(library, barrier, arrived, members)
                or self._with_missing(barrier, arrived, members, missing))

    def _pool_barrier(self, library: _Library, barrier: BarrierState, arrived: str,
                      sleepers: Collection[int]) -> SeenLock:
        """The barrier at which a pool waits for work, and the thread with work waits for its pool."""
        if all(self._is_pooled(library, self._threads[number]) for number in sleepers):
            return SeenLock(BARRIER, barrier.address, "idle", why=because("idle-pool"))
        return self._orphaned(library, barrier, arrived, sleepers) or SeenLock(
            BARRIER, barrier.address, arrived, why=because("team-starts-or-ends"))

    def _members(self, library: _Library, team: int) -> set[int]:
        """The threads of a team that have libgomp on their stacks.

        In a child of fork libgomp still writes the data of a thread of its pool into memory that may by now belong to
        another thread.
        """
        return self._users(library, library.members.get(team, ()) if library.places is not None else self._all_numbers)

    def _is_passing(self, library: _Library, number: int) -> bool:
        seen = self._threads[number]
        return self._inside(library, seen) and not (seen.call and seen.call.blocked)

    def _with_missing(self, barrier: BarrierState, state: str, members: Collection[int],
                 missing: Sequence[int]) -> SeenLock:
        if len(members) == barrier.total and len(missing) == barrier.missing:
            return SeenLock(BARRIER, barrier.address, state, held=held_by(missing, INFERRED),
                            why=because("members-missing", missing=barrier.missing))
        why = because("members-elsewhere", missing=barrier.missing, seen=len(members), total=barrier.total,
                      elsewhere=len(missing))
        return SeenLock(BARRIER, barrier.address, state, held=may_be_held_by(missing), why=why)

    def _tasks_left(self, barrier: BarrierState, members: Collection[int], busy: Sequence[int]) -> SeenLock:
        state = f"{barrier.total} of {barrier.total} arrived, tasks left"
        if len(members) == barrier.total and busy:
            return SeenLock(BARRIER, barrier.address, state, held=held_by(busy, INFERRED),
                            why=because("tasks-run"))
        return SeenLock(BARRIER, barrier.address, state, held=may_be_held_by(busy), why=_TASKS_LEFT)

    def _orphaned(self, library: _Library, barrier: BarrierState, state: str,
                  known: Collection[int]) -> SeenLock | None:
        """A barrier that waits for threads which no longer exist; None if they may exist.

        No other thread is inside libgomp, or so new that it may enter it. A child of fork has only the thread that
        called fork, but libgomp still counts its pool.
        """
        if not self._threads.all_available or len(known) >= barrier.total or any(
                seen.number not in known and self._may_come(library, seen) for seen in self._readable):
            return None
        why = because("members-not-existing", missing=barrier.total - len(known), total=barrier.total)
        return SeenLock(BARRIER, barrier.address, state, why=why,
                          held=Orphaned(because("left-behind-by-fork" if len(known) == 1 else "thread-exited")))

    def _may_come(self, library: _Library, seen: SeenThread) -> bool:
        native = seen.native(self._code)
        if not self._sites.in_runtime(native[-1][0]) and seen.ref.lwp != self._target.pid:
            return True  # a stack that does not end where threads start is incomplete
        return (any(self._code.module(pc) is library.module for pc, _ in native)
                or all(self._sites.in_runtime(pc) for pc, _ in native))

    def _semaphore(self, library: _Library, seen: SeenThread, address: int) -> SeenLock:
        """A turn in an ordered loop, or the end of tasks that other threads run."""
        members = self._members(library, library.team_of.get(seen.number, 0))
        awake = tuple(sorted(number for number in members if not self._inside(library, self._threads[number])))
        functions = self._sites.site(seen.native(self._code)).functions
        if any("task" in name for name in functions):
            return SeenLock(BARRIER, address, "tasks left", held=may_be_held_by(awake), why=_TASKS_LEFT)
        why = because("ordered-section")
        if "GOMP_ordered_start" not in functions:
            why = because("records-no-owner", what="libgomp-semaphore")
        return SeenLock(LOCK, address, "locked", held=may_be_held_by(awake), why=why)

    # -- critical sections and locks ---------------------------------------------------------------------------

    def _nest_lock(self, library: _Library, address: int) -> SeenLock:
        """A nested lock, which names the task that has taken it."""
        owner, places = owner_of_nest_lock(self._memory, address), library.places
        found = [seen.number for seen in self._readable if owner and places is not None
                 and self._runs_task(places, seen, owner)]
        if len(found) == 1:
            return SeenLock(LOCK, address, "locked", held=held_by(found, INFERRED), why=because("owner-is-its-task"))
        return self._mentioned(address, because("owner-task-unknown"))

    @if_unreadable(False)
    def _runs_task(self, places: TeamPlaces, seen: SeenThread, owner: int) -> bool:
        return runs_task(self._memory, places, seen.thread_pointer, owner)

    def _mutex(self, library: _Library, address: int) -> SeenLock:
        starts: dict[str, set[int]] = {}
        waiters: dict[int, int] = {}
        for number in self._asleep[address]:
            native = self._threads[number].native(self._code)
            site = self._sites.site(native)
            if site.caller is None:
                continue
            waiters[number] = site.caller
            for name in _SECTIONS.keys() & set(site.functions):
                starts.setdefault(name, set()).add(native[site.caller][0])
        if not starts:
            return self._mentioned(address, because("records-no-owner", what="openmp-lock"))
        inside = self._in_section(library, address, starts, waiters)
        if len(inside) == 1 and self._threads.all_available:
            return SeenLock(LOCK, address, "locked", held=held_by(inside, INFERRED),
                            why=because("only-thread-inside", where="critical-section"))
        if inside:
            return SeenLock(LOCK, address, "locked", held=may_be_held_by(inside),
                            why=because("maybe-inside", where="critical-section"))
        return self._mentioned(address, because("nobody-inside", where="critical-section"))

    def _in_section(self, library: _Library, address: int, starts: dict[str, set[int]],
                    waiters: dict[int, int]) -> tuple[int, ...]:
        """The threads inside a critical section that others wait to enter.

        :param starts: name of the function that starts it -> return addresses of the waiters' calls.
        :param waiters: number of each waiter -> index of the frame that called it.
        """
        name = next(iter(starts))
        symbols = [find_dynamic_symbol(self._memory, library.module, function) for function in (name, _SECTIONS[name])]
        start, end = [symbol.address if symbol is not None else 0 for symbol in symbols]
        section = Section(start, end, None if name == _NAMELESS else address, frozenset(starts[name]))
        # a waiter may be inside in an outer frame, and then waits for itself
        return tuple(sorted(seen.number for seen in self._readable
                            if self._sections.contains(section, seen.native(self._code),
                                                       waiters.get(seen.number, -1) + 1)))

    def _mentioned(self, address: int, why: Reason) -> SeenLock:
        found = self._mentions.threads_with(address) - self._asleep[address]
        return SeenLock(LOCK, address, "locked", held=may_be_held_by(found), why=why)


WAITS = OpenMP
