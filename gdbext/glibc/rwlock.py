"""`pthread_rwlock_t`: its writer, how many readers it counts, and which futex word a waiter sleeps on."""

from __future__ import annotations

from dataclasses import dataclass

from gdbext.errors import MemoryUnreadable
from gdbext.layout.table import Layouts
from gdbext.target.protocol import Memory

# __readers (glibc 2.25 and later, nptl/pthread_rwlock_common.c)
_WRPHASE, _WRLOCKED, _RWAITING, _READER_SHIFT = 1, 2, 4, 3
_MAX_READERS = 1 << 22

#: The futex words of a rwlock and how a thread that sleeps there wants the lock.
FUTEX_WORDS = {"__readers": "shared", "__wrphase_futex": None, "__writers_futex": "exclusive"}


@dataclass(frozen=True)
class RwlockState:
    """A decoded read-write lock.

    `state` is ``free``, ``read-locked``, ``write-locked`` or ``changing hands``. `writer` is a TID, None when no
    writer holds it. `readers` counts the readers that hold it; `registered_readers` those that wait for a writer
    to leave. `writer_pending` tells that a writer waits for readers to leave; who it is is recorded nowhere.
    """

    address: int
    state: str
    writer: int | None
    readers: int
    registered_readers: int
    writer_pending: bool
    plausible: bool
    process_shared: bool = False


def decode_rwlock(memory: Memory, layouts: Layouts, address: int) -> RwlockState:
    """Decode a glibc read-write lock.

    Source: glibc 2.36 nptl/pthread_rwlock_common.c (the algorithm of 2.25 and later).

    :param address: ``pthread_rwlock_t *`` in the target.
    :return: state; ``writer`` is a TID, or None when no writer holds it.
    :raises MemoryUnreadable: the lock is not mapped, or not in the core.

    glibc counts readers and does not name them; who they are is for ``analysis`` to infer.
    """
    (readers, writers, wrphase, writers_futex, pad3, pad4, cur_writer, shared, flags) = layouts[
        "pthread_rwlock_t"].reader("__readers", "__writers", "__wrphase_futex", "__writers_futex", "__pad3",
                                   "__pad4", "__cur_writer", "__shared", "__flags")(memory, address)
    count = readers >> _READER_SHIFT
    writing, locked = bool(readers & _WRPHASE), bool(readers & _WRLOCKED)
    writer = None
    holding = registered = 0
    if writing and locked:
        state, registered = "write-locked", count
        # the writer notes itself a moment after it has the lock and takes the note away a moment before it
        # leaves, so 0 is possible for an instant
        writer = cur_writer or None
    elif writing:
        state, holding = ("changing hands", 0) if count else ("free", 0)
        registered = count
    elif count:
        state, holding = "read-locked", count
    else:
        state = "changing hands" if locked else "free"
    plausible = (pad3 == 0 and pad4 == 0 and shared in (0, 1) and 0 <= flags <= 2 and 0 <= wrphase <= 3
                 and 0 <= writers_futex <= 3 and writers_futex != 2 and count <= _MAX_READERS
                 and writers & 0x7FFFFFFF <= _MAX_READERS and cur_writer >= 0 and address & 3 == 0
                 # a writer in its phase has set both words; this is what tells a lock from zeroed memory
                 and (writer is None or (wrphase & 1 == 1 and writers_futex & 1 == 1))
                 and (cur_writer == 0 or locked))
    return RwlockState(address, state, writer, holding, registered, locked and not writing and count > 0, plausible,
                       shared == 1)


def find_rwlock(memory: Memory, layouts: Layouts, futex: int, expected: int) -> tuple[RwlockState, str] | None:
    """The rwlock one of whose futex words lies at an address, and the mode in which a sleeper there wants it.

    A writer behind a writer sleeps on ``__writers_futex``, a reader behind a writer and a writer behind readers on
    ``__wrphase_futex``, and a reader behind a waiting writer (kind ``PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE``)
    on ``__readers``.

    :param futex: address that the waiter sleeps on.
    :param expected: value that the waiter gave to the kernel.
    :return: None when no plausible lock has a futex word there, or more than one has.
    """
    found = []
    for member in FUTEX_WORDS:
        base = futex - layouts["pthread_rwlock_t"].offset(member)
        try:
            state = decode_rwlock(memory, layouts, base)
        except MemoryUnreadable:
            continue
        if state.plausible and state.state != "free" and _fits(member, expected, state):
            found.append((state, _mode(member, expected)))
    return found[0] if len(found) == 1 else None


def _fits(member: str, expected: int, state: RwlockState) -> bool:
    if member == "__writers_futex":
        return expected == 3 and (state.state == "write-locked" or state.writer_pending)
    if member == "__wrphase_futex":
        if expected == 2:
            return state.writer_pending
        return expected == 3 and state.state == "write-locked" and state.registered_readers > 0
    return bool(expected & _RWAITING) and expected >> _READER_SHIFT > 0 and state.writer_pending


def _mode(member: str, expected: int) -> str:
    if member == "__wrphase_futex":
        return "exclusive" if expected == 2 else "shared"
    return str(FUTEX_WORDS[member])


def lock_of_word(layouts: Layouts, memory: Memory, address: int) -> list[tuple[int, str]]:
    """Bases of plausible rwlocks of which a member lies at an address, for a user who gave a member's address.

    :return: (base, member), the given address itself first.
    """
    found = []
    for member in ("__readers", "__writers_futex", "__wrphase_futex", "__writers", "__cur_writer"):
        base = address - layouts["pthread_rwlock_t"].offset(member)
        try:
            state = decode_rwlock(memory, layouts, base)
        except MemoryUnreadable:
            continue
        if state.plausible and (member == "__readers" or state.state != "free"):
            found.append((base, member))
    return found
