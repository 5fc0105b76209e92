"""Which system calls go on after a stop as if nothing had happened.

All others end early, with EINTR or after a part, and many programs do not expect that. Source: Linux man-pages 6.05,
signal(7), "Interruption of system calls and library functions by signal handlers", "by stop signals".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdbext.arch.protocol import Syscall
from gdbext.inferior.proc.descriptors import is_path

_RESTARTED = frozenset((
    "clock_nanosleep", "fcntl", "flock", "futex", "futex_wait", "futex_waitv", "mq_timedreceive", "mq_timedsend",
    "nanosleep", "open", "openat", "openat2", "pause", "poll", "ppoll", "pselect6", "restart_syscall",
    "rt_sigsuspend", "select", "wait4", "waitid"))
#: These end early if they read from a socket with a time-out, or from some devices.
_READS = frozenset(("read", "readv"))
_HARMLESS_LINKS = ("pipe:", "anon_inode:", "/dev/pts/", "/dev/tty")
#: The beginnings of the names of calls that may return what they have done so far.
_IN_PARTS = ("pwrite", "read", "recv", "send", "splice", "write")


def is_restarted(name: str | None, arguments: Sequence[int], link: Callable[[int], str | None]) -> bool:
    """Whether a thread that sleeps in a system call sleeps on after a stop.

    :param name: the name of the call.
    :param link: the link of a descriptor, as of `Proc.link`.
    """
    if name not in _READS:
        return name in _RESTARTED
    file = (link(arguments[0]) if arguments else None) or ""
    return file.startswith(_HARMLESS_LINKS) or is_path(file)


def may_have_ended(call: Syscall | None, link: Callable[[int], str | None]) -> bool:
    """Whether a stop may have ended the system call of a thread, which is stopped now.

    :param call: the call according to its registers, None if the thread is in none.
    """
    return (call is not None and call.name is not None and not is_restarted(call.name, call.arguments, link)
            and (call.blocked or call.result >= 0 and call.name.startswith(_IN_PARTS)))
