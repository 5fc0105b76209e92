"""Waits of threads for mutexes and condition variables of Abseil, as in gRPC, TensorFlow and JAX."""

from __future__ import annotations

from typing import Final

from gdbext.errors import if_unreadable
from gdbext.glibc.futex import CLOCK_REALTIME, FUTEX_WAIT, FUTEX_WAIT_BITSET, PRIVATE, FutexWait
from gdbext.inferior.cache import read_available
from gdbext.libraries.absl import decoding
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.seen import SeenLock, without_owner
from gdbext.model import EXCLUSIVE, SHARED, Mode
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread

MUTEX: Final = "absl-mutex"
_CONDVAR: Final = "absl-condvar"
_OPS = frozenset((FUTEX_WAIT | PRIVATE, FUTEX_WAIT_BITSET | PRIVATE | CLOCK_REALTIME, FUTEX_WAIT_BITSET | PRIVATE))
#: Bytes of the stack that Abseil's own functions have above a sleeping thread's stack pointer, at most.
_OWN_FRAMES = 1 << 11


class Absl(LibraryWaits):
    """The waits of threads inside Abseil."""

    @if_unreadable(None)
    def find_lock(self, seen: SeenThread, futex: FutexWait) -> SeenLock | None:
        """What a thread waits for that sleeps on a futex word of Abseil; None for any other wait."""
        if futex.op not in _OPS or futex.expected != decoding.ASLEEP:
            return None
        waiter = decoding.read_waiter(self._memory, futex.address)
        if waiter is None:
            return None
        low = seen.sp & ~7
        words = memoryview(read_available(self._memory, low, _OWN_FRAMES)).cast("Q")
        registers = self._target.registers(seen.ref, seen.cpu.CALLEE_SAVED).values()
        addresses = {word for word in (*words, *registers) if word and not word & 7}
        lock = decoding.find_awaited(self._memory, waiter, addresses)
        if lock is None:
            return None
        if lock.state is None:
            return SeenLock(_CONDVAR, lock.address, "waiting for a signal", why=because("condvar-has-no-owner"))
        if waiter.has_condition:
            return SeenLock(_CONDVAR, lock.address, "waiting for a condition", why=because("condvar-has-no-owner"))
        mode: Mode = SHARED if waiter.reads else EXCLUSIVE
        return without_owner(MUTEX, lock.address, lock.state, MUTEX, mode, lock.readers)


WAITS = Absl
