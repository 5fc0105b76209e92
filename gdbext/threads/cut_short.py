"""Blocked calls that a stop has cut short. The thread then seems to be running.

A write of more bytes than fit into a pipe or socket blocks after the first part. If the thread is then interrupted, as
by attaching to its process, the kernel cannot restart the call: it returns the size of that part. A result can often be
complete as well; then only what the kernel recorded before the stop shows that the thread was blocked.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gdbext.arch.protocol import Syscall
from gdbext.errors import GdbextError
from gdbext.inferior.proc.descriptors import Descriptor
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.proc.threads import SystemCall
from gdbext.inferior.protocol import Memory
from gdbext.threads.threads import SeenThread

#: Which argument is the number of bytes (of sendmmsg: of messages).
_SIZES = {"write": 2, "pwrite64": 2, "sendto": 2, "sendmmsg": 2, "recvfrom": 2, "sendfile": 3, "splice": 4}
#: Which arguments are a ``struct iovec *`` and the number of its elements.
_VECTORS = {"writev": (1, 2), "pwritev": (1, 2), "pwritev2": (1, 2)}
_MESSAGES = ("sendmsg", "recvmsg")
#: Which argument is the flags, of calls on a socket.
_FLAGS = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3, "recvfrom": 3, "recvmsg": 2}
_MSG_DONTWAIT, _MSG_WAITALL = 0x40, 0x100
_RECEIVES = ("recvfrom", "recvmsg")
#: Calls that also end early for other reasons, such as the end of a file.
_MAY_BE_DONE = frozenset((*_RECEIVES, "sendfile", "splice"))
_SUBMITS, _IORING_ENTER_GETEVENTS = "io_uring_enter", 1
#: All calls that return what they have done so far if a signal or a stop interrupts them.
CALLS = frozenset((*_SIZES, *_VECTORS, *_MESSAGES, _SUBMITS))
_MSGHDR = struct.Struct("<16xQQ")  # struct msghdr: name, its size, struct iovec *, number of elements
_IOVEC = struct.Struct("<QQ")
#: Most elements of a vector (UIO_MAXIOV).
_MOST_ELEMENTS = 1024
_STREAMS = ("pipe:", "socket:", "/dev/pts/", "/dev/tty")


def is_cut_short(memory: Memory, proc: Proc | None, call: Syscall) -> bool | None:
    """Whether a call that has returned was blocked until the thread was stopped; None if that is not known.

    :param proc: the process; None for a core, which does not show whether descriptors block.
    """
    name, arguments = call.name, call.arguments
    if call.blocked or call.result <= 0 or name not in CALLS:
        return False
    if name == _SUBMITS:
        # the result is the number of requests that it has submitted before it waits for the wanted completions
        return None if arguments[2] and arguments[3] & _IORING_ENTER_GETEVENTS else False
    flags = arguments[_FLAGS[name]] if name in _FLAGS else 0
    if flags & _MSG_DONTWAIT or name in _RECEIVES and not flags & _MSG_WAITALL:
        return False
    size = _size(memory, name, arguments)
    if size is None or call.result >= size:
        return False
    if name in _MAY_BE_DONE or proc is None:
        return None
    return _blocks(proc, arguments[0] & 0xFFFFFFFF)


def has_slept(proc: Proc | None, seen: SeenThread, call: Syscall) -> bool:
    """Whether the kernel recorded, before the stop, that a thread slept in the call, and it has slept ever since."""
    return proc is not None and proc.slept_until_stopped(
        seen.ref.lwp, SystemCall(call.number, call.arguments, seen.sp, seen.pc))


def _size(memory: Memory, name: str, arguments: Sequence[int]) -> int | None:
    """How much a call should write or receive; None if that cannot be read."""
    if name in _SIZES:
        return arguments[_SIZES[name]]
    try:
        if name in _MESSAGES:
            at, count = _MSGHDR.unpack(memory.read(arguments[1], _MSGHDR.size))
        else:
            at, count = (arguments[index] for index in _VECTORS[name])
        if not 0 < count <= _MOST_ELEMENTS:
            return None
        lengths: list[int] = [length for _, length in _IOVEC.iter_unpack(memory.read(at, count * _IOVEC.size))]
        return sum(lengths)
    except GdbextError:
        return None


def _blocks(proc: Proc, fd: int) -> bool | None:
    """Whether a write to a descriptor blocks until all is written; None if that is not known."""
    link, info = proc.descriptors.link(fd), proc.descriptors.info(Descriptor(proc.pid, fd))
    if link is None or info is None:
        return None
    if info.nonblocking:
        return False
    return True if link.startswith(_STREAMS) else None  # a path may name a pipe
