"""Structures of GNU OpenMP: barriers, the words that its threads sleep on, and the teams of a thread.

libgomp makes its own futex calls and sleeps with `FUTEX_WAIT`. Its locks record no owner, but each thread has a
``struct gomp_thread`` in thread-local storage, which points to its team. The place of that pointer is read from the
code of two exported functions; the other structures have not changed since GCC 4.8.

Sources: GCC 12.2 libgomp/libgomp.h, libgomp/team.c, libgomp/config/linux/{bar,mutex,sem,ptrlock}.h, Intel SDM volume 2.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from gdbext.arch.protocol import Architecture
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_u32, read_u64
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.table import Layouts
from gdbext.record import record

# wheels contain a copy with a hash in its name: libgomp-a34b3233.so.1.0.0
_FILE = re.compile(r"^libgomp(?:-[0-9a-f]+)?\.so[.0-9]*$")

#: The futex values that threads expect while they sleep on a ``gomp_mutex_t``, ``gomp_sem_t``, ``gomp_ptrlock_t``.
MUTEX_WAITED_FOR, SEMAPHORE_WAITED_FOR, POINTER_LOCK_WAITED_FOR = 0xFFFFFFFF, 0x80000000, 2

# `generation`: flags that change while threads wait at a barrier, and a count from bit 3 on
_TASK_PENDING, _WAITING_FOR_TASK, _CANCELLED = 1, 2, 4
_FLAGS = _TASK_PENDING | _WAITING_FOR_TASK | _CANCELLED
#: More threads than Linux allows: a plausible count is not larger.
_MAX_THREADS = 1 << 22
#: The largest number of nested regions.
_MAX_NESTING = 256
#: Thread-local storage of libraries loaded at start-up is at most this far from the thread pointer: below it on x86-64,
#: above it on arm64.
_MAX_STATIC_TLS = 1 << 24


def is_libgomp(module: Module) -> bool:
    """Whether a module is GNU OpenMP: the system's library or a copy in a wheel."""
    return _FILE.match(module.name) is not None


# -- barriers -------------------------------------------------------------------------------------------------

@record
class BarrierState:
    """A barrier at which a thread sleeps: `missing` of its `total` threads have not arrived.

    `tasks_left`: all threads have arrived, and some run tasks that must finish first. `passed`: the barrier has ended,
    and the threads that sleep there are about to wake.
    """

    address: int
    total: int
    missing: int
    tasks_left: bool
    passed: bool


def find_barrier(memory: Memory, layouts: Layouts, futex: int, expected: int) -> BarrierState | None:
    """Find the barrier with its ``generation`` at a futex word.

    Source: GCC 12.2 libgomp/config/linux/bar.h.

    :param futex: the word that a thread sleeps on.
    :param expected: the value that the thread expects there.
    :return: None if the memory is not a plausible ``gomp_barrier_t``.
    :raises MemoryUnreadable: the memory is not mapped, or not in the core.
    """
    known = layouts["gomp_barrier_t"]
    address = futex - known.offset("generation")
    read = known.reader("total", "generation", "awaited", "awaited_final")
    total, generation, awaited, final = read(memory, address)
    if not 1 <= total <= _MAX_THREADS or awaited > total or final > total:
        return None
    # the end of a region has a separate count: cancelling the region may leave any value in the other one
    missing = final if final < total else awaited
    passed = (generation ^ expected) & ~_FLAGS != 0
    if missing == total:
        # the last thread to arrive resets the count to the total, and sets the flag if tasks are left
        tasks_left = not passed and generation & _WAITING_FOR_TASK != 0
        return BarrierState(address, total, 0, tasks_left, not tasks_left)
    return BarrierState(address, total, missing, False, passed)


# -- teams ----------------------------------------------------------------------------------------------------

@record
class TeamPlaces:
    """Byte offsets of ``ts.team``, ``ts.team_id`` and ``task`` in a thread's ``gomp_thread`` from its thread pointer.

    The last one is None for unknown code.
    """

    team: int
    team_id: int
    task: int | None = None


def find_team_places(cpu: Architecture, memory: Memory, module: Module) -> TeamPlaces | None:
    """Find the place of a thread's team from the code of the functions that return it; None for unknown code."""
    team = _find_loaded_offset(cpu, memory, module, "omp_get_num_threads", 8)
    team_id = _find_loaded_offset(cpu, memory, module, "omp_get_thread_num", 4)
    task = _find_loaded_offset(cpu, memory, module, "omp_in_final", 8)
    return TeamPlaces(team, team_id, task) if team is not None and team_id is not None else None


@if_unreadable(None)
def _find_loaded_offset(cpu: Architecture, memory: Memory, module: Module, function: str, size: int) -> int | None:
    """The offset from the thread pointer of the first variable that a function loads."""
    symbol = find_dynamic_symbol(memory, module, function)
    if symbol is None:
        return None
    found = cpu.loaded_thread_local(memory, symbol.address)
    if found is None or found[2] != size:
        return None
    distance, inside, _ = found
    return distance + inside if 0 < (distance if cpu.DESCRIPTOR_IS_BELOW else -distance) < _MAX_STATIC_TLS else None


def iter_teams(memory: Memory, layouts: Layouts, places: TeamPlaces, thread_pointer: int) -> Iterator[int]:
    """Iterate over a thread's teams, innermost first, as ``struct gomp_team *``.

    A thread that starts a region is number 0 in the new team and keeps its number in the outer team. An idle thread of
    the pool keeps its last team.

    Source: GCC 12.2 libgomp/libgomp.h, libgomp/team.c.

    :raises MemoryUnreadable: (when iterated) a structure is not mapped, or not in the core.
    """
    outer = layouts["gomp_team"].reader("prev_team", "prev_team_id")
    team = read_u64(memory, thread_pointer + places.team)
    number = read_u32(memory, thread_pointer + places.team_id)
    for _ in range(_MAX_NESTING):
        if not team:
            return
        yield team
        if number:
            return
        team, number = outer(memory, team)


def team_of_barrier(memory: Memory, layouts: Layouts, barrier: BarrierState) -> int | None:
    """The team that contains a barrier (``struct gomp_team *``), or None if its size differs.

    :raises MemoryUnreadable: the team is not mapped, or not in the core.
    """
    known = layouts["gomp_team"]
    team = barrier.address - known.offset("barrier")
    threads, = known.reader("nthreads")(memory, team)
    return team if threads == barrier.total else None


# -- nested locks ---------------------------------------------------------------------------------------------

#: ``omp_nest_lock_t``: the word that threads sleep on, the count of nested locks, the owner.
_NEST_LOCK = struct.Struct("<iiQ")
#: Most bytes of a ``struct gomp_task`` before the end of its ``icv``.
_MAX_TASK = 0x100


def owner_of_nest_lock(memory: Memory, address: int) -> int:
    """The owner of an ``omp_nest_lock_t *``, which is the address of ``icv`` in its task; 0 if it is free.

    Source: GCC 12.2 libgomp/config/linux/lock.c, omp-lock.h.

    :raises MemoryUnreadable: the lock is not mapped, or not in the core.
    """
    _, count, owner = _NEST_LOCK.unpack(memory.read(address, _NEST_LOCK.size))
    return owner if count > 0 else 0


def runs_task(memory: Memory, places: TeamPlaces, thread_pointer: int, owner: int) -> bool:
    """Whether an owner is in the task that a thread runs.

    :raises MemoryUnreadable: the thread's ``struct gomp_thread`` is not mapped, or not in the core.
    """
    return places.task is not None and 0 < owner - read_u64(memory, thread_pointer + places.task) < _MAX_TASK
