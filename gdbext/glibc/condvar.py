"""`pthread_cond_t`: how many threads wait. It has no owner, and does not tell its mutex."""

from __future__ import annotations

from dataclasses import dataclass

from gdbext.errors import MemoryUnreadable
from gdbext.layout.table import Layouts
from gdbext.target.protocol import Memory

_MAX_WAITERS = 1 << 22


@dataclass(frozen=True)
class CondvarState:
    """A condition variable that somebody waits on; `waiters` is how many it counts itself."""

    address: int
    waiters: int
    process_shared: bool


def find_condvar(memory: Memory, layouts: Layouts, futex: int, sleepers: int) -> CondvarState | None:
    """The condition variable one of whose two futex words lies at an address.

    Source: glibc 2.36 nptl/pthread_cond_wait.c; glibc 2.41 and backports of it in 2.38 - 2.40 moved the words.

    :param futex: address that the waiter sleeps on: ``__g_signals[0]`` or ``[1]``.
    :param sleepers: how many threads sleep there; the condition variable counts at least as many.

    ``__wrefs`` lies 4 bytes before the first word in both layouts, so the waiters are right even if a
    distribution has backported the other layout; the base is then off by 8.
    """
    known = layouts["pthread_cond_t"]
    for index in (0, 1):
        base = futex - known.offset("__g_signals") - 4 * index
        try:
            wrefs, = known.reader("__wrefs")(memory, base)
        except MemoryUnreadable:
            continue
        waiters = (wrefs & 0xFFFFFFFF) >> 3
        if sleepers <= waiters <= _MAX_WAITERS and wrefs & 4 == 0:
            return CondvarState(base, waiters, bool(wrefs & 1))
    return None
