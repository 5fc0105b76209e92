"""How long a wait with a timeout can last: the timeout that a thread has passed to its system call.

Sources: Linux 6.1 include/uapi/linux/{futex,time_types}.h; the manual pages of the system calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gdbext.arch.protocol import Syscall
from gdbext.glibc.futex import CLOCK_REALTIME, FUTEX_LOCK_PI, FUTEX_WAIT, PRIVATE
from gdbext.inferior.awaited import c_int, read_timespec
from gdbext.inferior.protocol import Memory

TIMER_ABSTIME = 1
#: Which argument of a call is its timeout in milliseconds.
MILLISECONDS = {"poll": 2, "epoll_wait": 3, "epoll_pwait": 3}
#: Which argument is a ``struct timespec *`` of CLOCK_REALTIME.
_ABSOLUTE = {"mq_timedsend": 4, "mq_timedreceive": 4}
#: Which argument is a ``struct timespec *``, from now on unless the call is one of those above.
TIMESPECS = {"ppoll": 2, "select": 4, "pselect6": 4, "epoll_pwait2": 3, "rt_sigtimedwait": 2, "semtimedop": 3,
             "io_getevents": 4, **_ABSOLUTE}

#: The time of a clock of the process, in seconds; None if it is not known.
Now = Callable[[int], "float | None"]


def time_left(memory: Memory, call: Syscall, name: str, now: Now | None) -> float | None:
    """The longest time that a wait can still last, in seconds; None if it has no timeout, or that is not known.

    :param name: the system call, also where the kernel has lost its number.
    :param now: None for a core, where the time of the snapshot is not known.
    """
    arguments = call.arguments
    if name in MILLISECONDS:
        milliseconds = c_int(arguments[MILLISECONDS[name]])
        return milliseconds / 1000 if milliseconds >= 0 else None
    clock: int | None = None
    if name in ("futex", "futex_wait", "futex_waitv"):
        at, clock = _of_futex(name, arguments)
    elif name == "nanosleep":
        at = arguments[0]
    elif name == "clock_nanosleep":
        at, clock = arguments[2], arguments[0] if arguments[1] & TIMER_ABSTIME else None
    elif name in TIMESPECS:
        at, clock = arguments[TIMESPECS[name]], time.CLOCK_REALTIME if name in _ABSOLUTE else None
    else:
        return None
    until = read_timespec(memory, at) if at else None
    if until is None or clock is None:
        return until
    then = now(clock) if now is not None else None
    return max(until - then, 0.0) if then is not None else None


def _of_futex(name: str, arguments: tuple[int, ...]) -> tuple[int, int | None]:
    """The address of the timeout, and its clock, None for a time from now on."""
    if name == "futex_wait":
        return arguments[4], arguments[5]
    if name == "futex_waitv":
        return arguments[3], arguments[4]
    operation = arguments[1] & 0xFFFFFFFF
    if operation & ~(PRIVATE | CLOCK_REALTIME) == FUTEX_WAIT:
        return arguments[3], None
    # FUTEX_LOCK_PI is the only other one whose clock is not in its flags, and it has always been this one
    realtime = operation & CLOCK_REALTIME or operation & ~(PRIVATE | CLOCK_REALTIME) == FUTEX_LOCK_PI
    return arguments[3], time.CLOCK_REALTIME if realtime else time.CLOCK_MONOTONIC

