"""`sem_t`: its value and the number of threads that sleep on it. A semaphore has no owner by design."""

from __future__ import annotations

from gdbext.glibc.futex import MAX_THREADS, PRIVATE
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.record import record


@record
class SemaphoreState:
    """A decoded POSIX semaphore."""

    address: int
    value: int
    waiters: int
    process_shared: bool
    plausible: bool


def decode_semaphore(memory: Memory, layouts: Layouts, address: int) -> SemaphoreState:
    """Decode a POSIX semaphore.

    Source: glibc 2.36 sysdeps/nptl/internaltypes.h, struct new_sem (64-bit atomics: value in the low half of
    ``data``, number of waiters in the high half); glibc 2.17 nptl/sem_init.c (up to 2.20).

    :param address: ``sem_t *`` in the target.
    :raises MemoryUnreadable: the semaphore is not mapped, or not in the core.
    """
    known = layouts["sem_t"]
    if "data" in known:
        data, private = known.reader("data", "private")(memory, address)
        value, waiters = data & 0xFFFFFFFF, data >> 32
        # `private` is inverted, for the kernel: FUTEX_PRIVATE_FLAG means shared, 0 means private
        shared = private == PRIVATE
    else:
        value, private, waiters = known.reader("value", "private", "nwaiters")(memory, address)
        shared = private == 0
    plausible = private in (0, PRIVATE) and waiters <= MAX_THREADS and value < 1 << 31
    return SemaphoreState(address, value, waiters, shared, plausible)
