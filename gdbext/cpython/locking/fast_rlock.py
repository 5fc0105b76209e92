"""`FastRLock`, the recursive lock of Cython code: in h5py, lupa and CuPy, each of which may contain its own copy.

A thread that finds the lock free only records its ident and a count. The first thread that finds it held takes the
interpreter's lock below it for the owner, and then waits for that lock, which records nothing.
"""

from __future__ import annotations

import struct

from gdbext.inferior.protocol import Memory
from gdbext.record import record

#: `lock` (``PyThread_type_lock``), `owner` (``unsigned long``), `entry_count`, `pending_requests`, `is_locked` (int).
_MEMBERS = struct.Struct("<QQIII")
#: Size of the members with the padding after them.
_SIZE = 32
#: More entries than a stack has room for, and more threads than Linux allows.
_MAX_COUNT = 1 << 22


@record
class FastRLock:
    """The members of a `FastRLock`. `owner` (``pthread_self()``) is current only while the `count` of entries is not 0.

    `lock` is the interpreter's lock that waiting threads sleep in (``PyThread_type_lock``).
    """

    lock: int
    owner: int
    count: int


def is_fast_rlock(type_name: str) -> bool:
    """Whether a type (``tp_name``) is a `FastRLock` of any module."""
    return type_name.endswith(".FastRLock")


def read_fast_rlock(memory: Memory, members: int, size: int) -> FastRLock | None:
    """Read the members of a `FastRLock`.

    Sources: fastrlock 0.8.4 fastrlock/_lock.pxi, h5py 3.16 h5py/_locks.pxi.

    :param members: address behind the object's header.
    :param size: bytes of the object behind its header.
    :return: None if the members are not plausible, as those of another class of that name.
    :raises MemoryUnreadable: the object is not mapped, or not in the core.
    """
    if size < _SIZE:
        return None
    lock, owner, count, pending, is_locked = _MEMBERS.unpack(memory.read(members, _MEMBERS.size))
    if not lock or lock & 3 or is_locked > 1 or max(count, pending) > _MAX_COUNT or (count and not owner):
        return None
    return FastRLock(lock, owner, count)
