"""What a blocked system call waits for, by its arguments and memory: descriptors with their direction, children, time.

Sources: Linux 6.1 include/uapi/asm-generic/poll.h, include/uapi/linux/{wait,time_types}.h; poll(2), select(2), wait(2).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Literal

from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.record import record

Way = Literal["read", "write"]
READ: Way = "read"
WRITE: Way = "write"
#: Most descriptors of one ``poll`` or ``select`` that are read.
MOST_DESCRIPTORS = 4096
POLLFD = struct.Struct("<ihh")  # struct pollfd: fd, events, revents
_TIMESPEC = struct.Struct("<qq")  # struct __kernel_timespec: seconds, nanoseconds
_POLLOUT = 0x304  # POLLOUT, POLLWRNORM, POLLWRBAND
_POLLIN = 0xC3  # POLLIN, POLLPRI, POLLRDNORM, POLLRDBAND
_P_ALL, _P_PID, _P_PGID, _P_PIDFD = range(4)

#: Reads the memory of the process; None if it cannot, or it raises.
Reader = Callable[[int, int], "bytes | None"]


@if_unreadable(None)
def read_timespec(memory: Memory, at: int) -> float | None:
    """A ``struct timespec`` in seconds; None if it is unreadable or invalid."""
    seconds, nanoseconds = _TIMESPEC.unpack(memory.read(at, _TIMESPEC.size))
    return float(seconds + nanoseconds / 1e9) if seconds >= 0 and 0 <= nanoseconds < 10 ** 9 else None


def c_int(value: int) -> int:
    """A register's value as a C ``int``."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def read_polled(arguments: Sequence[int], read: Reader) -> list[tuple[int, Way]] | None:
    """The descriptors that ``poll`` and ``ppoll`` wait for, in order; None if they cannot be read."""
    count = arguments[1] & 0xFFFFFFFF
    data = _read(read, arguments[0], count * POLLFD.size) if 0 < count <= MOST_DESCRIPTORS else None
    if data is None:
        return None if count else []
    found: list[tuple[int, Way]] = []
    for fd, events, _ in POLLFD.iter_unpack(data):
        if fd >= 0:
            found += [(fd, WRITE)] if events & _POLLOUT else []
            found += [(fd, READ)] if events & _POLLIN or not events & _POLLOUT else []
    return found


def read_selected(arguments: Sequence[int], read: Reader) -> list[tuple[int, Way]] | None:
    """The same for ``select`` and ``pselect6``, by number for each of the three sets."""
    count = max(c_int(arguments[0]), 0)
    sets: list[tuple[int, Way]] = [(at, way) for at, way in zip(arguments[1:4], (READ, WRITE, READ)) if at and count]
    found: list[tuple[int, Way]] = []
    for at, way in sets:
        data = _read(read, at, (count + 7) // 8) if count <= MOST_DESCRIPTORS else None
        if data is None:
            return None
        bits = int.from_bytes(data, "little")
        found += [(fd, way) for fd in range(min(count, bits.bit_length())) if bits >> fd & 1]
    return found


def read_watched(name: str, arguments: Sequence[int], read: Reader) -> list[tuple[int, Way]] | None:
    """The descriptors that a call waits for which takes several; None for another call, or if they cannot be read."""
    if name in ("poll", "ppoll"):
        return read_polled(arguments, read)
    return read_selected(arguments, read) if name in ("select", "pselect6") else None


def _read(read: Reader, address: int, size: int) -> bytes | None:
    try:
        return read(address, size)
    except GdbextError:
        return None


@record
class AwaitedChild:
    """The child processes that ``wait4`` or ``waitid`` waits for.

    `number` is the PID in the process's own PID namespace, the descriptor (`kind` ``pidfd``), or the process group, 0
    for the process's own one.
    """

    kind: Literal["any", "process", "group", "pidfd"]
    number: int


def decode_awaited_child(name: str, arguments: Sequence[int]) -> AwaitedChild:
    """Decode the arguments of ``wait4`` and ``waitid``."""
    if name == "waitid":
        kind, number = arguments[0] & 0xFFFFFFFF, c_int(arguments[1])
        if kind == _P_PIDFD:
            return AwaitedChild("pidfd", number)
        if kind == _P_PGID:
            return AwaitedChild("group", number)
        return AwaitedChild("process", number) if kind == _P_PID and number > 0 else AwaitedChild("any", 0)
    number = c_int(arguments[0])
    if number > 0:
        return AwaitedChild("process", number)
    return AwaitedChild("any", 0) if number == -1 else AwaitedChild("group", -number)
