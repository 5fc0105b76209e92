"""GNU OpenMP's own objects: barriers, the words that its threads sleep on, and which team a thread is in.

libgomp makes its futex calls itself and sleeps with `FUTEX_WAIT`. Nothing of it names an owner, but each thread has a
``struct gomp_thread`` in its thread-local storage, which points to its team. Where that lies is read from the code of
two exported functions; the other structures have been the same since GCC 4.8.

Sources: GCC 12.2 libgomp/libgomp.h, libgomp/team.c, libgomp/config/linux/{bar,mutex,sem,ptrlock}.h, Intel SDM volume 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdbext.arch.protocol import Architecture
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_u32, read_u64
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.table import Layouts
from gdbext.record import record

# wheels bring a copy whose name has a hash: libgomp-a34b3233.so.1.0.0
_FILE = re.compile(r"^libgomp(?:-[0-9a-f]+)?\.so[.0-9]*$")

#: What a thread expects to find that sleeps on a ``gomp_mutex_t``, on a ``gomp_sem_t``, on a ``gomp_ptrlock_t``.
MUTEX_WAITED_FOR, SEMAPHORE_WAITED_FOR, POINTER_LOCK_WAITED_FOR = 0xFFFFFFFF, 0x80000000, 2

# `generation`: two flags that come and go while a barrier is waited for, and in the bits from 3 on a count
_TASK_PENDING, _WAITING_FOR_TASK, _CANCELLED = 1, 2, 4
_FLAGS = _TASK_PENDING | _WAITING_FOR_TASK | _CANCELLED
#: More threads than Linux allows; a larger count is no count.
_MAX_THREADS = 1 << 22
#: Most regions inside one another.
_MAX_NESTING = 256
#: Thread-local storage of libraries that are there from the start lies at most this far below the thread pointer.
_MAX_STATIC_TLS = 1 << 24


def is_libgomp(module: Module) -> bool:
    """Whether a module is GNU OpenMP, the system's or a wheel's copy."""
    return _FILE.match(module.name) is not None


# -- barriers -------------------------------------------------------------------------------------------------

@record
class BarrierState:
    """A barrier on which a thread sleeps: `missing` of its `total` threads have not arrived.

    `tasks_left`: all have arrived, and some run tasks that must be done before it ends. `passed`: it has ended, and the
    threads that sleep there are about to wake.
    """

    address: int
    total: int
    missing: int
    tasks_left: bool
    passed: bool


def find_barrier(memory: Memory, layouts: Layouts, futex: int, expected: int) -> BarrierState | None:
    """The barrier that has its ``generation`` at a futex word.

    Source: GCC 12.2 libgomp/config/linux/bar.h.

    :param futex: the word that a thread sleeps on.
    :param expected: the value that it expects there.
    :return: None if no ``gomp_barrier_t`` is there.
    :raises MemoryUnreadable: what should be there is not mapped, or not in the core.
    """
    known = layouts["gomp_barrier_t"]
    address = futex - known.offset("generation")
    read = known.reader("total", "generation", "awaited", "awaited_final")
    total, generation, awaited, final = read(memory, address)
    if not 1 <= total <= _MAX_THREADS or awaited > total or final > total:
        return None
    # the end of a region has a count of its own, since cancelling the region may leave the other one anywhere
    missing = final if final < total else awaited
    passed = (generation ^ expected) & ~_FLAGS != 0
    if missing == total:
        # the last to arrive sets the count back to the total, and the flag if there are tasks left
        tasks_left = not passed and generation & _WAITING_FOR_TASK != 0
        return BarrierState(address, total, 0, tasks_left, not tasks_left)
    return BarrierState(address, total, missing, False, passed)


# -- teams ----------------------------------------------------------------------------------------------------

@record
class TeamPlaces:
    """How far from a thread pointer ``ts.team`` and ``ts.team_id`` of the thread's ``gomp_thread`` lie, in bytes."""

    team: int
    team_id: int


def find_team_places(cpu: Architecture, memory: Memory, module: Module) -> TeamPlaces | None:
    """Where a libgomp keeps a thread's team, from the code of its functions that return it; None if that is unusual."""
    team = _loaded_from(cpu, memory, module, "omp_get_num_threads", 8)
    team_id = _loaded_from(cpu, memory, module, "omp_get_thread_num", 4)
    return TeamPlaces(team, team_id) if team is not None and team_id is not None else None


@if_unreadable(None)
def _loaded_from(cpu: Architecture, memory: Memory, module: Module, function: str, size: int) -> int | None:
    """How far from the thread pointer the variable lies that a function loads first."""
    symbol = find_dynamic_symbol(memory, module, function)
    if symbol is None:
        return None
    found = cpu.loaded_thread_local(memory, symbol.address)
    if found is None or found[2] != size:
        return None
    distance, inside, _ = found
    return distance + inside if -_MAX_STATIC_TLS < distance < 0 else None


def iter_teams(memory: Memory, layouts: Layouts, places: TeamPlaces, thread_pointer: int) -> Iterator[int]:
    """The teams that a thread is a member of, innermost first, as ``struct gomp_team *``.

    A thread that opens a region is number 0 of the new team and stays what it was in the team around it. A thread of
    the pool keeps its last team while it is idle.

    Source: GCC 12.2 libgomp/libgomp.h, libgomp/team.c.

    :raises MemoryUnreadable: (when iterated) what should be there is not mapped, or not in the core.
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
    """The team that a barrier would belong to (``struct gomp_team *``), or None if that is of another size.

    :raises MemoryUnreadable: the team is not mapped, or not in the core.
    """
    known = layouts["gomp_team"]
    team = barrier.address - known.offset("barrier")
    threads, = known.reader("nthreads")(memory, team)
    return team if threads == barrier.total else None
