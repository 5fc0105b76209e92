"""The futex words on which a blocked system call waits.

Sources: Linux 6.1 include/uapi/linux/futex.h; Linux 6.7 kernel/futex/syscalls.c (``futex_wait``).
"""

from __future__ import annotations

import struct

from gdbext.arch.protocol import Syscall
from gdbext.inferior.protocol import Memory
from gdbext.record import record

#: More threads than Linux allows: a plausible count of threads is not larger.
MAX_THREADS = 1 << 22
FUTEX_WAIT = 0
FUTEX_LOCK_PI = 6
FUTEX_WAIT_BITSET = 9
FUTEX_WAIT_REQUEUE_PI = 11
FUTEX_LOCK_PI2 = 13
_COMMAND = 0x7F
PRIVATE = 0x80  # FUTEX_PRIVATE_FLAG
CLOCK_REALTIME = 0x100
#: The bit set that the C library passes to every FUTEX_WAIT_BITSET (FUTEX_BITSET_MATCH_ANY).
_ALL_BITS = 0xFFFFFFFF
_WAITS = {FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2}
#: The word size in the flags of ``futex_waitv`` and ``futex_wait``; kernels support four bytes only.
_SIZE_MASK, _SIZE_U32 = 3, 2
_WAITER = struct.Struct("<QQII")  # struct futex_waitv: value, address, flags, -
#: The largest number of words in one wait (FUTEX_WAITV_MAX).
_MAX_WAITERS = 128


@record
class FutexWait:
    """A wait in ``futex(address, op, expected, timeout, ...)``."""

    address: int
    op: int
    expected: int
    timed: bool

    @property
    def command(self) -> int:
        """The operation without its flags."""
        return self.op & _COMMAND


def decode_futex_wait(call: Syscall | None, surely: bool = False) -> FutexWait | None:
    """Decode the futex wait of a blocked call; None if it is another call.

    A restarted call has lost its number, so its arguments must fit a timed futex wait and no other timed call:
    ``poll(fds, 9, ...)`` and ``nanosleep(request, NULL)`` have similar arguments.

    :param surely: other evidence shows that a restarted call is a futex wait.
    """
    if call is None or not call.blocked:
        return None
    if call.name == "futex_wait":
        address, expected, _, flags, timeout = call.arguments[:5]
        return _decode_new_call(address, expected, flags & 0xFFFFFFFF, timeout)
    if call.name not in ("futex", None):
        return None
    address, op, expected, timeout = call.arguments[:4]
    op &= 0xFFFFFFFF
    if op & _COMMAND not in _WAITS or op & ~(_COMMAND | PRIVATE | CLOCK_REALTIME) or address & 3 or not address:
        return None
    if call.name is None:
        all_bits = op & _COMMAND != FUTEX_WAIT_BITSET or call.arguments[5] & 0xFFFFFFFF == _ALL_BITS
        if not (timeout and (surely or all_bits and op & (PRIVATE | CLOCK_REALTIME))):
            return None
    return FutexWait(address, op, expected & 0xFFFFFFFF, timeout != 0)


def decode_futex_waits(memory: Memory, call: Syscall | None) -> tuple[FutexWait, ...]:
    """Decode all futex waits of a blocked call. ``futex_waitv`` may have several, and any one ends the call.

    :return: empty if the call does not wait on futexes, or one of the waits is impossible.
    :raises MemoryUnreadable: the array of ``futex_waitv`` cannot be read.
    """
    if call is None or call.name != "futex_waitv" or not call.blocked:
        wait = decode_futex_wait(call)
        return (wait,) if wait is not None else ()
    array, count, _, timeout = call.arguments[:4]
    count &= 0xFFFFFFFF
    if not 0 < count <= _MAX_WAITERS:
        return ()
    waits = []
    for expected, address, flags, _ in _WAITER.iter_unpack(memory.read(array, count * _WAITER.size)):
        wait = _decode_new_call(address, expected, flags, timeout)
        if wait is None:
            return ()
        waits.append(wait)
    return tuple(waits)


def _decode_new_call(address: int, expected: int, flags: int, timeout: int) -> FutexWait | None:
    """Translate a wait of ``futex_wait`` or ``futex_waitv`` into the equivalent ``futex`` call."""
    if flags & _SIZE_MASK != _SIZE_U32 or flags & ~(_SIZE_MASK | PRIVATE) or address & 3 or not address:
        return None
    return FutexWait(address, FUTEX_WAIT | flags & PRIVATE, expected & 0xFFFFFFFF, timeout != 0)
