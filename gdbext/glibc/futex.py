"""Whether a thread is blocked in the kernel, in which system call, and on which futex word.

Sources: Linux 6.1 include/uapi/linux/futex.h, arch/x86/entry/calling.h, kernel/signal.c (restart codes). The
numbers of system calls are data: `layout/syscalls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gdbext.layout.select import syscall_names

# What the kernel leaves in rax of a thread that was interrupted in a blocking call: -ERESTARTSYS, ...NOINTR,
# ...NOHAND, ..._RESTARTBLOCK, and -EINTR for calls that are not restarted
_INTERRUPTED = {-512, -513, -514, -516, -4}
_MASK64 = 0xFFFFFFFFFFFFFFFF

FUTEX_WAIT = 0
FUTEX_LOCK_PI = 6
FUTEX_WAIT_BITSET = 9
FUTEX_WAIT_REQUEUE_PI = 11
FUTEX_LOCK_PI2 = 13
_COMMAND = 0x7F
PRIVATE = 0x80
CLOCK_REALTIME = 0x100
#: The bit set of every FUTEX_WAIT_BITSET of the C library (FUTEX_BITSET_MATCH_ANY).
_ALL_BITS = 0xFFFFFFFF
_WAITS = {FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2}


@dataclass(frozen=True)
class Syscall:
    """A system call that a thread is in.

    `blocked` is false when the call has returned already. `name` is None for ``restart_syscall``: the kernel
    restarts a timed wait after a stop, and only the arguments of the original call are left.
    """

    number: int
    name: str | None
    arguments: tuple[int, ...]
    blocked: bool


@dataclass(frozen=True)
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


def decode_syscall(registers: Mapping[str, int]) -> Syscall | None:
    """The system call that a thread of x86-64 is in, from the registers of its newest frame.

    :return: None when it is in none.
    """
    number = registers.get("orig_rax", _MASK64)
    if number >= 1 << 31:
        return None
    names = syscall_names("x86_64")
    name = names.get(number)
    rax = registers.get("rax", 0)
    signed = rax - (1 << 64) if rax >> 63 else rax
    arguments = tuple(registers.get(register, 0) for register in ("rdi", "rsi", "rdx", "r10", "r8", "r9"))
    if name == "restart_syscall":
        name = None
    return Syscall(number, name, arguments, signed in _INTERRUPTED)


def decode_futex_wait(call: Syscall | None) -> FutexWait | None:
    """The futex wait of a blocked call, or None.

    Of a restarted call the number is lost, so its arguments must be those of a timed futex wait and of no other timed
    call: ``poll(fds, 9, ...)`` and ``nanosleep(request, NULL)`` look much the same.
    """
    if call is None or not call.blocked or call.name not in ("futex", None):
        return None
    address, op, expected, timeout = call.arguments[:4]
    op &= 0xFFFFFFFF
    if op & _COMMAND not in _WAITS or op & ~(_COMMAND | PRIVATE | CLOCK_REALTIME) or address & 3 or not address:
        return None
    if call.name is None:
        all_bits = op & _COMMAND != FUTEX_WAIT_BITSET or call.arguments[5] & 0xFFFFFFFF == _ALL_BITS
        if not (timeout and all_bits and op & (PRIVATE | CLOCK_REALTIME)):
            return None
    return FutexWait(address, op, expected & 0xFFFFFFFF, timeout != 0)
