"""Blocked writes that a stop has cut short. The thread then seems to be running.

A write of more bytes than fit into a pipe or socket blocks after the first part. If the thread is then interrupted, as
by attaching to its process, the kernel cannot restart the call: it returns the size of that part.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gdbext.arch.protocol import Syscall
from gdbext.errors import GdbextError
from gdbext.inferior.proc import Descriptor, Proc
from gdbext.inferior.protocol import Memory

#: Which argument is the number of bytes to write (of sendmmsg: the number of messages).
_SIZES = {"write": 2, "pwrite64": 2, "sendto": 2, "sendmmsg": 2}
#: Which arguments are a ``struct iovec *`` and the number of its elements.
_VECTORS = {"writev": (1, 2), "pwritev": (1, 2), "pwritev2": (1, 2)}
#: Which argument is the size, of calls that also end early for other reasons, such as the end of a file.
_COPIES = {"sendfile": 3, "splice": 4}
#: Which argument is the flags, of calls on a socket.
_FLAGS = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
_MSG_DONTWAIT, _MSG_WAITALL = 0x40, 0x100
_MSGHDR = struct.Struct("<16xQQ")  # struct msghdr: name, its size, struct iovec *, number of elements
_IOVEC = struct.Struct("<QQ")
#: Most elements of a vector (UIO_MAXIOV).
_MOST_ELEMENTS = 1024
_STREAMS = ("pipe:", "socket:", "/dev/pts/", "/dev/tty")


def is_cut_short(memory: Memory, proc: Proc | None, call: Syscall) -> bool | None:
    """Whether a call that has returned was blocked until the thread was stopped; None if that is not known.

    :param proc: the process; None for a core, which does not show whether descriptors block.
    """
    if call.blocked or call.result <= 0 or call.name is None:
        return False
    if call.name == "recvfrom":
        return None if call.arguments[3] & _MSG_WAITALL and call.result < call.arguments[2] else False
    if call.name in _COPIES:
        return None if call.result < call.arguments[_COPIES[call.name]] else False
    size = _size(memory, call.name, call.arguments)
    if size is None or call.result >= size:
        return False
    if call.name in _FLAGS and call.arguments[_FLAGS[call.name]] & _MSG_DONTWAIT:
        return False
    return _blocks(proc, call.arguments[0] & 0xFFFFFFFF) if proc is not None else None


def _size(memory: Memory, name: str, arguments: Sequence[int]) -> int | None:
    """How much a call should write; None if it does not write, or if the size cannot be read."""
    if name in _SIZES:
        return arguments[_SIZES[name]]
    try:
        if name == "sendmsg":
            at, count = _MSGHDR.unpack(memory.read(arguments[1], _MSGHDR.size))
        elif name in _VECTORS:
            at, count = (arguments[index] for index in _VECTORS[name])
        else:
            return None
        if not 0 < count <= _MOST_ELEMENTS:
            return None
        lengths: list[int] = [length for _, length in _IOVEC.iter_unpack(memory.read(at, count * _IOVEC.size))]
        return sum(lengths)
    except GdbextError:
        return None


def _blocks(proc: Proc, fd: int) -> bool | None:
    """Whether a write to a descriptor blocks until all is written; None if that is not known."""
    link, info = proc.link(fd), proc.info(Descriptor(proc.pid, fd))
    if link is None or info is None:
        return None
    if info.nonblocking:
        return False
    return True if link.startswith(_STREAMS) else None  # a path may name a pipe
