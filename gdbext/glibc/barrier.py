"""`pthread_barrier_t`: the number of threads that have arrived and that are missing. It does not record which."""

from __future__ import annotations

from gdbext.errors import MemoryUnreadable
from gdbext.glibc.futex import MAX_THREADS, PRIVATE
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.record import record


@record
class BarrierState:
    """A decoded barrier: `arrived` of the `count` threads have arrived in this round."""

    address: int
    count: int
    arrived: int
    missing: int
    process_shared: bool
    plausible: bool


def decode_barrier(memory: Memory, layouts: Layouts, address: int) -> BarrierState:
    """Decode a barrier.

    Source: glibc 2.36 nptl/pthread_barrier_wait.c (the algorithm of 2.23 and later), glibc 2.17
    nptl/pthread_barrier_init.c (the older algorithm, which counts down).

    :param address: ``pthread_barrier_t *`` in the target.
    :raises MemoryUnreadable: the barrier is not mapped, or not in the core.
    """
    known = layouts["pthread_barrier_t"]
    # up to glibc 2.22 private barriers have the flag, since 2.23 shared ones
    if "left" in known:
        event_lock, missing, count, private = known.reader("lock", "left", "init_count", "private")(memory, address)
        shared, flag = private == 0, private
        fits = event_lock in (0, 1, 2)
    else:
        entered, start, count, flag, left = known.reader("in", "current_round", "count", "shared", "out")(
            memory, address)
        missing = count - (entered - start)
        shared = flag == PRIVATE
        # a round starts at the count at which the previous one ended, and only threads that arrived have left
        fits = entered >= start >= left and count > 0 and start % count == 0
    plausible = (fits and 1 <= count <= MAX_THREADS and 0 <= missing <= count and flag in (0, PRIVATE)
                 and address & 3 == 0)
    return BarrierState(address, count, count - missing, missing, shared, plausible)


def find_barrier(memory: Memory, layouts: Layouts, futex: int, expected: int, sleepers: int) -> BarrierState | None:
    """Find the barrier with its futex word at an address, if the barrier still misses threads.

    A thread may also sleep on ``in``: after two billion arrivals until the count has restarted, and in
    ``pthread_barrier_destroy``. It does not wait for threads to arrive then, so no barrier is returned.

    :param futex: address that the waiting thread sleeps on: ``current_round``; up to glibc 2.22 ``curr_event``.
    :param expected: value that the thread passed to the kernel: the word's value until the round ends.
    :param sleepers: number of threads that sleep there; all of them have arrived.
    """
    known = layouts["pthread_barrier_t"]
    word = "curr_event" if "curr_event" in known else "current_round"
    base = futex - known.offset(word)
    try:
        state = decode_barrier(memory, layouts, base)
        current, = known.reader(word)(memory, base)
    except MemoryUnreadable:
        return None
    fits = state.plausible and current == expected and 1 <= sleepers <= state.arrived and state.missing >= 1
    return state if fits else None
