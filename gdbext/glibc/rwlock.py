"""`pthread_rwlock_t`: its writer, the number of its readers, and the futex words that threads sleep on.

glibc 2.25 introduced a new algorithm in a structure of the same size; the members in the layout show which one applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdbext.errors import MemoryUnreadable
from gdbext.glibc.futex import MAX_THREADS, PRIVATE
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts, Struct
from gdbext.model import Mode
from gdbext.record import record

# __readers (glibc 2.25 and later, nptl/pthread_rwlock_common.c)
_WRPHASE, _WRLOCKED, _RWAITING, _READER_SHIFT = 1, 2, 4, 3


@record
class RwlockState:
    """A decoded read-write lock.

    `state` is ``free``, ``read-locked``, ``write-locked`` or ``changing hands``. `writer` is a TID or None. `readers`
    is the number of readers that hold it, `registered_readers` of those that wait for a writer to unlock it.
    `writer_pending`: a writer waits for the readers; the lock does not record which thread.
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
    """Decode a glibc read-write lock. glibc counts readers but does not record which threads they are.

    Source: glibc 2.36 nptl/pthread_rwlock_common.c (the algorithm of 2.25 and later), glibc 2.23
    nptl/pthread_rwlock_rdlock.c, pthread_rwlock_wrlock.c and pthread_rwlock_unlock.c (the older one).

    :param address: ``pthread_rwlock_t *``.
    :raises MemoryUnreadable: the lock is not mapped, or not in the core.
    """
    known = layouts["pthread_rwlock_t"]
    if _is_old(known):
        return _decode_old(memory, known, address)
    (readers, writers, wrphase, writers_futex, pad3, pad4, cur_writer, shared, flags) = known.reader(
        "__readers", "__writers", "__wrphase_futex", "__writers_futex", "__pad3", "__pad4", "__cur_writer", "__shared",
        "__flags")(memory, address)
    count = readers >> _READER_SHIFT
    writing, locked = bool(readers & _WRPHASE), bool(readers & _WRLOCKED)
    writer = None
    holding = registered = 0
    if writing and locked:
        state, registered = "write-locked", count
        # the writer stores its TID just after it has taken the lock and clears it just before it releases the lock,
        # so 0 is possible for an instant
        writer = cur_writer or None
    elif writing:
        state, holding = ("changing hands", 0) if count else ("free", 0)
        registered = count
    elif count:
        state, holding = "read-locked", count
    else:
        state = "changing hands" if locked else "free"
    plausible = (pad3 == 0 and pad4 == 0 and shared in (0, 1) and 0 <= flags <= 2 and 0 <= wrphase <= 3
                 and 0 <= writers_futex <= 3 and writers_futex != 2 and count <= MAX_THREADS
                 and writers & 0x7FFFFFFF <= MAX_THREADS and cur_writer >= 0 and address & 3 == 0
                 # a writer in its phase has set both words; zeroed memory has not
                 and (writer is None or (wrphase & 1 == 1 and writers_futex & 1 == 1))
                 and (cur_writer == 0 or locked))
    return RwlockState(address, state, writer, holding, registered, locked and not writing and count > 0, plausible,
                       shared == 1)


def _is_old(known: Struct) -> bool:
    return "__nr_readers" in known


def _decode_old(memory: Memory, known: Struct, address: int) -> RwlockState:
    # a plain lock guards the counts, and threads sleep on words that only count wake-ups
    lock, readers, readers_waiting, writers_waiting, writer, shared, flags = known.reader(
        "__lock", "__nr_readers", "__nr_readers_queued", "__nr_writers_queued", "__writer", "__shared", "__flags")(
        memory, address)
    state = "write-locked" if writer else "read-locked" if readers else "free"
    if state == "free" and (readers_waiting or writers_waiting):
        state = "changing hands"
    end = known["__flags"].offset + known["__flags"].size
    plausible = (lock in (0, 1, 2) and writer >= 0 and not (writer and readers) and shared in (0, PRIVATE)
                 and 0 <= flags <= 2 and address & 7 == 0  # the union has a long
                 and max(readers, readers_waiting, writers_waiting) <= MAX_THREADS
                 # unused bytes; at an address that is off by 4 they contain the kind of the lock
                 and not any(memory.read(address + end, known.size - end)))
    return RwlockState(address, state, writer or None, readers, readers_waiting, readers > 0 and writers_waiting > 0,
                       plausible, shared == PRIVATE)


def find_rwlock(memory: Memory, layouts: Layouts, futex: int, expected: int,
                sleepers: int = 0) -> tuple[RwlockState, Mode] | None:
    """Find the rwlock with a futex word at an address, and the mode that a thread sleeping there requests.

    A writer behind a writer sleeps on ``__writers_futex``, a reader behind a writer and a writer behind readers on
    ``__wrphase_futex``, and a reader behind a waiting writer (kind ``PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE``)
    on ``__readers``. Up to glibc 2.24 readers sleep on ``__readers_wakeup``, writers on ``__writer_wakeup``.

    :param futex: address that the waiting thread sleeps on.
    :param expected: value that the thread passed to the kernel.
    :param sleepers: number of threads that sleep there, or 0 if not known. Up to glibc 2.24 the lock counts them too,
        which is the main difference from a mutex.
    :return: None unless exactly one plausible lock has a futex word there.
    """
    known = layouts["pthread_rwlock_t"]
    members = (("__readers_wakeup", "__writer_wakeup") if _is_old(known) else
               ("__readers", "__wrphase_futex", "__writers_futex"))
    places = ((member, futex - known.offset(member)) for member in members)
    found = [(state, _mode(member, expected)) for member, state in _iter_locks(memory, layouts, places)
             if state.state != "free" and (_fits_old(memory, known, member, expected, sleepers, state)
                                           if _is_old(known) else _fits(member, expected, state))]
    return found[0] if len(found) == 1 else None


def _iter_locks(memory: Memory, layouts: Layouts,
                places: Iterable[tuple[str, int]]) -> Iterator[tuple[str, RwlockState]]:
    """Iterate over the plausible locks among several places."""
    for member, address in places:
        try:
            state = decode_rwlock(memory, layouts, address)
        except MemoryUnreadable:
            continue
        if state.plausible:
            yield member, state


def _fits(member: str, expected: int, state: RwlockState) -> bool:
    if member == "__writers_futex":
        return expected == 3 and (state.state == "write-locked" or state.writer_pending)
    if member == "__wrphase_futex":
        if expected == 2:
            return state.writer_pending
        return expected == 3 and state.state == "write-locked" and state.registered_readers > 0
    return bool(expected & _RWAITING) and expected >> _READER_SHIFT > 0 and state.writer_pending


def _fits_old(memory: Memory, known: Struct, member: str, expected: int, sleepers: int, state: RwlockState) -> bool:
    if member == "__readers_wakeup":
        word, waiting, flags = known.reader("__readers_wakeup", "__nr_readers_queued", "__flags")(memory, state.address)
        # all readers are woken at once, so none still sleeps after the word has changed; they wait behind other
        # readers only if the lock prefers a waiting writer
        fits = word == expected and (state.writer is not None or (state.writer_pending and flags != 0))
    else:
        word, waiting = known.reader("__writer_wakeup", "__nr_writers_queued")(memory, state.address)
        # writers are woken one at a time
        fits = word - expected & 0xFFFFFFFF < 1 << 31
    return fits and (waiting >= max(sleepers, 1) if state.process_shared or not sleepers else waiting == sleepers)


def _mode(member: str, expected: int) -> Mode:
    if member == "__wrphase_futex":
        return "exclusive" if expected == 2 else "shared"
    return "exclusive" if member in ("__writers_futex", "__writer_wakeup") else "shared"


def lock_of_word(layouts: Layouts, memory: Memory, address: int) -> list[tuple[int, str]]:
    """Plausible rwlocks with a member at an address: (base, member). A lock at the address itself comes first."""
    known = layouts["pthread_rwlock_t"]
    members = (("__lock", "__writer_wakeup", "__readers_wakeup", "__nr_readers", "__writer") if _is_old(known) else
               ("__readers", "__writers_futex", "__wrphase_futex", "__writers", "__cur_writer"))
    places = ((member, address - known.offset(member)) for member in members)
    return [(state.address, member) for member, state in _iter_locks(memory, layouts, places)
            if state.address == address or state.state != "free"]
