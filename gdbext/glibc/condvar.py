"""`pthread_cond_t`: the number of waiting threads. It has no owner, and since glibc 2.25 it does not record its mutex.

Before glibc 2.25 a broadcast woke one waiter; the kernel moved all others to the mutex. Then the registers of those
threads still show a wait on the condition variable, and only the condition variable shows that they wait for the mutex.
"""

from __future__ import annotations

from gdbext.errors import MemoryUnreadable
from gdbext.glibc.futex import MAX_THREADS
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts, Struct
from gdbext.record import record

_MASK64 = 0xFFFFFFFFFFFFFFFF
#: `__mutex` of a condition variable that is shared between processes (glibc 2.24 and earlier).
_NO_MUTEX = _MASK64
#: The lowest bits of `__nwaiters` are for the clock, the rest is the count (COND_NWAITERS_SHIFT, glibc 2.24 and
#: earlier).
_NWAITERS_SHIFT = 1


@record
class CondvarState:
    """A condition variable with waiting threads; `waiters` is its own count of them.

    `requeued_to` is the ``pthread_mutex_t *`` on which all of them sleep, or None if they wait for a signal.
    """

    address: int
    waiters: int
    process_shared: bool
    requeued_to: int | None = None


def find_condvar(memory: Memory, layouts: Layouts, futex: int, sleepers: int) -> CondvarState | None:
    """Find the condition variable with a futex word at an address.

    Source: glibc 2.36 nptl/pthread_cond_wait.c, and glibc 2.23
    sysdeps/unix/sysv/linux/x86_64/pthread_cond_wait.S for 2.24 and earlier. glibc 2.41 and its backports to 2.38 -
    2.40 moved the words.

    :param futex: address that the waiting thread sleeps on: ``__g_signals[0]`` or ``[1]``; up to 2.24 ``__futex``.
    :param sleepers: number of threads that sleep there; the condition variable counts at least as many.
    """
    known = layouts["pthread_cond_t"]
    try:
        if "__futex" in known:
            return _find_old(memory, known, futex, sleepers)
        return _find(memory, known, futex, sleepers)
    except MemoryUnreadable:
        return None


def _find(memory: Memory, known: Struct, futex: int, sleepers: int) -> CondvarState | None:
    for index in (0, 1):
        base = futex - known.offset("__g_signals") - 4 * index
        sequence, start, wrefs = known.reader("__wseq", "__g1_start", "__wrefs")(memory, base)
        waiters = (wrefs & 0xFFFFFFFF) >> 3
        # every waiter has taken a number; the older group has the lower numbers
        numbers, first = (sequence & _MASK64) >> 1, (start & _MASK64) >> 1
        if sleepers <= waiters <= min(MAX_THREADS, numbers) and first <= numbers and wrefs & 4 == 0:
            return CondvarState(base, waiters, bool(wrefs & 1))
    return None


def _find_old(memory: Memory, known: Struct, futex: int, sleepers: int) -> CondvarState | None:
    base = futex - known.offset("__futex")
    lock, word, total, wakeups, woken, mutex, waiters = known.reader(
        "__lock", "__futex", "__total_seq", "__wakeup_seq", "__woken_seq", "__mutex", "__nwaiters")(memory, base)
    total, wakeups, woken, mutex = (value & _MASK64 for value in (total, wakeups, woken, mutex))
    waiters >>= _NWAITERS_SHIFT
    fits = (lock in (0, 1, 2) and woken <= wakeups <= total < 1 << 63 and sleepers <= waiters <= MAX_THREADS
            # every new waiter increments the word, and so does every wake-up
            and (lock != 0 or word == total + wakeups & 0xFFFFFFFF))
    if not fits:
        return None
    shared = mutex == _NO_MUTEX
    # all waiters were woken, and yet some sleep: a broadcast has moved them. If others have come since then, the two
    # groups cannot be distinguished
    moved = wakeups == total and mutex != 0 and not shared
    return CondvarState(base, waiters, shared, mutex if moved else None)
