"""`pthread_mutex_t`: its owner, and whether some bytes are plausibly a mutex."""

from __future__ import annotations

from gdbext.glibc.futex import MAX_THREADS
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.record import record

# __kind: two bits of type, then flags (glibc 2.36 nptl/pthreadP.h)
_ROBUST, _INHERIT, _PROTECT, _SHARED = 0x10, 0x20, 0x40, 0x80
_ELISION = 0x100
_KIND_BITS = 0x3F3
_TYPES = ("normal", "recursive", "error-checking", "adaptive")
_TID_MASK = 0x3FFFFFFF
_OWNER_DIED = 0x40000000
#: `__owner` of a robust mutex that can no longer be used (PTHREAD_MUTEX_INCONSISTENT, ..._NOTRECOVERABLE).
_SPECIAL_OWNERS = (0x7FFFFFFF, 0x7FFFFFFE)


@record
class MutexState:
    """A decoded mutex; `owner` is a TID or None.

    `owner_died`: the owner of a robust mutex ended without unlocking it. A mutex that `elides` locks (Intel TSX)
    records no owner, even if it is locked because the owner's transaction was aborted.
    """

    address: int
    locked: bool
    owner: int | None
    kind: str
    recursion: int
    users: int
    owner_died: bool
    plausible: bool
    elides: bool = False


def decode_mutex(memory: Memory, layouts: Layouts, address: int) -> MutexState:
    """Decode a glibc mutex of any kind.

    Source: glibc 2.36 sysdeps/nptl/bits/struct_mutex.h, nptl/pthread_mutex_lock.c.

    :param address: ``pthread_mutex_t *`` in the target.
    :return: state; ``owner`` is the TID that the mutex records, as every kind of mutex does. While a lock is elided
        (Intel TSX, glibc 2.18 - 2.42) nothing is recorded and the mutex seems free.
    :raises MemoryUnreadable: the mutex is not mapped, or not in the core.
    """
    read = layouts["pthread_mutex_t"].reader("__lock", "__count", "__owner", "__nusers", "__kind")
    lock, count, owner, users, kind = read(memory, address)
    lock &= 0xFFFFFFFF
    named = _TYPES[kind & 3] + "".join(
        name for bit, name in ((_ROBUST, ", robust"), (_INHERIT, ", priority-inheriting"),
                               (_PROTECT, ", priority-protected"), (_SHARED, ", process-shared"))
        if kind & bit and not (bit == _SHARED and kind & _ROBUST))
    died = False
    if kind & (_ROBUST | _INHERIT):
        # the kernel reads and writes this word itself, so its TID is the owner
        recorded = lock & _TID_MASK or None
        died = bool(lock & _OWNER_DIED)
        word_fits, locked = True, recorded is not None
    else:
        low = lock & 0x7FFFF if kind & _PROTECT else lock
        word_fits = low in (0, 1, 2)
        locked, recorded = low in (1, 2), owner if owner > 0 and owner not in _SPECIAL_OWNERS and low else None
    plausible = (word_fits and kind & ~_KIND_BITS == 0 and (owner >= 0) and users <= MAX_THREADS
                 and address & 3 == 0 and (kind & 3 == 1 or count <= 1)
                 and (locked or died or owner in (0, *_SPECIAL_OWNERS)) and (not locked or users >= 1 or owner == 0))
    return MutexState(address, locked, recorded, named, count, users, died, plausible, bool(kind & _ELISION))
