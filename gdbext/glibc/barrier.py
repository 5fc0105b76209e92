"""`pthread_barrier_t`: how many threads have arrived and how many are missing. It does not record which."""

from __future__ import annotations

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.record import record

#: More threads than Linux allows; a larger count is no count.
_MAX_COUNT = 1 << 22
#: FUTEX_PRIVATE_FLAG; which barriers have it is told below.
_FLAG = 0x80


@record
class BarrierState:
    """A decoded barrier: of the `count` threads of each round `arrived` have arrived in this one."""

    address: int
    count: int
    arrived: int
    missing: int
    process_shared: bool
    plausible: bool


def decode_barrier(memory: Memory, layouts: Layouts, address: int) -> BarrierState:
    """Decode a barrier.

    Source: glibc 2.36 nptl/pthread_barrier_wait.c (the algorithm of 2.23 and later), glibc 2.17
    nptl/pthread_barrier_init.c (the one before it, which counts down).

    :param address: ``pthread_barrier_t *`` in the target.
    :raises MemoryUnreadable: the barrier is not mapped, or not in the core.
    """
    known = layouts["pthread_barrier_t"]
    if "left" in known:
        event_lock, missing, count, private = known.reader("lock", "left", "init_count", "private")(memory, address)
        # a barrier that is shared has no flag here, the other way round than since 2.23
        shared, flag = private == 0, private
        fits = event_lock in (0, 1, 2)
    else:
        entered, start, count, flag, left = known.reader("in", "current_round", "count", "shared", "out")(
            memory, address)
        missing = count - (entered - start)
        shared = flag == _FLAG
        # a round starts where the one before it ended, and who has left it was in it
        fits = entered >= start >= left and count > 0 and start % count == 0
    plausible = fits and 1 <= count <= _MAX_COUNT and 0 <= missing <= count and flag in (0, _FLAG) and address & 3 == 0
    return BarrierState(address, count, count - missing, missing, shared, plausible)


def find_barrier(memory: Memory, layouts: Layouts, futex: int, expected: int, sleepers: int) -> BarrierState | None:
    """The barrier whose futex word is at an address, if threads are missing there.

    A thread may also sleep on ``in``: after two thousand million arrivals until the count has begun anew, and in
    ``pthread_barrier_destroy``. It does not wait for threads to arrive then, so that is not a wait at the barrier.

    :param futex: address that the waiter sleeps on: ``current_round``; up to glibc 2.22 ``curr_event``.
    :param expected: value that the waiter gave to the kernel: that of the word, as long as the round lasts.
    :param sleepers: how many threads sleep there; all of them have arrived.
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
