"""What recognisers find: a lock as its memory shows it, and a thread's wait for a lock or for something else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, Union

from gdbext.cpython.locking.locks import PyLock
from gdbext.model import (
    EXCLUSIVE,
    INFERRED,
    RECORDED,
    Evidence,
    Holder,
    Lock,
    Mode,
    NamedObject,
    PyFrame,
    Waiter,
    WaitFor,
)
from gdbext.model.kinds import POOL_JOB, LockKind, id_of_lock, kind_of
from gdbext.model.reasons import Reason, ReasonCode, because, joined
from gdbext.record import record
from gdbext.threads.gone import Gone
from gdbext.threads.threads import Threads

#: Ways to find the holders of a lock that does not record them; see `holders.inferred`.
READERS = "readers"
ARRIVING = "arriving"
RUNS_ONCE = "runs once"
INITIALISES = "initialises"
ALLOCATES = "allocates"
MENTIONS = "mentions"

#: The state of a lock that nobody holds.
FREE = "free"

#: Most reasons that are given for one descriptor.
_MOST_REASONS = 4


@record
class RecordedTid:
    """The lock records a TID."""

    tid: int


@record
class RecordedDescriptor:
    """The lock records a ``struct pthread *`` that is not of a thread of the process."""

    pthread: int


@record
class Known:
    """Threads hold the lock, and some more threads may hold it."""

    holders: tuple[Holder, ...]
    candidates: tuple[int, ...] = ()


@record
class NotRecorded:
    """The lock records no holder; `way` says how to find the holders, None if there is no way.

    `count` is how many threads have it for reading, or have not arrived at a barrier.
    """

    way: str | None = None
    count: int = 0


@record
class Orphaned:
    """The thread that held the lock exists no longer; `reason` says why."""

    reason: Reason
    evidence: Evidence = RECORDED


@record
class Elsewhere:
    """The lock records the TID of a thread of another process."""

    tid: int


#: What is known about the holders of a lock.
Held = Union[RecordedTid, RecordedDescriptor, Known, NotRecorded, Orphaned, Elsewhere]
UNKNOWN: Final = NotRecorded()


def held_by(numbers: Iterable[int | None], evidence: Evidence = RECORDED, why: Reason | None = None,
            mode: Mode = EXCLUSIVE, taken_at: PyFrame | None = None) -> Held:
    """Make holders of the numbers of threads; None is left out."""
    holders = tuple([Holder(number, mode, evidence, why, taken_at) for number in numbers if number is not None])
    return Known(holders) if holders else UNKNOWN


def may_be_held_by(numbers: Iterable[int]) -> Held:
    """Make candidates of the numbers of threads."""
    candidates = tuple(sorted(numbers))
    return Known((), candidates) if candidates else UNKNOWN


def by_tid(tid: int | None) -> Held:
    """The owner that a lock records as a TID; None if it records none."""
    return RecordedTid(tid) if tid is not None else UNKNOWN


def by_descriptor(number: int | None, pthread: int | None) -> Held:
    """The owner that a lock records as a ``struct pthread *``, 0 or None if it records none.

    :param number: the number of that thread, None if it is not a thread of the process.
    """
    return held_by((number,)) if number is not None else RecordedDescriptor(pthread) if pthread else UNKNOWN


@record
class SeenLock:
    """A lock as its memory shows it, before all its holders are found.

    `held` says what is known about its holders. With `shared` other processes may hold it. `mode` is that of the
    waiting thread. A thread that `repeats` its timed waits waits forever.

    For a lock on a file, `descriptors` are those through which this process alone holds locks in the way.

    For a Python lock, `python` is the lock object, and `known_by` are the objects that refer to it. `of_object` is the
    object that has the lock in an attribute. `guards` is the
    object (``PyObject *``) that the lock belongs to and the name of its type. The id of a GIL has a `number` in place
    of the address.
    """

    kind: LockKind
    address: int
    state: str
    mode: Mode = EXCLUSIVE
    held: Held = UNKNOWN
    repeats: bool = False
    shared: bool = False
    why: Reason | None = None
    name: str | None = None
    python: PyLock | None = None
    known_by: frozenset[int] = frozenset()
    guards: tuple[int, str] | None = None
    number: int | None = None
    of_object: NamedObject | None = None
    descriptors: tuple[int, ...] = ()
    #: of this lock, if that differs from its kind
    wait_for: WaitFor | None = None

    @cached_property
    def id(self) -> str:
        """The lock's id in reports."""
        return id_of_lock(self.kind, self.address) if self.number is None else f"{self.kind}:{self.number}"

    @property
    def holders(self) -> tuple[Holder, ...]:
        """The threads that are known to hold it."""
        return self.held.holders if isinstance(self.held, Known) else ()

    @property
    def candidates(self) -> tuple[int, ...]:
        """Further threads that may hold it."""
        return self.held.candidates if isinstance(self.held, Known) else ()

    @property
    def readers(self) -> int:
        """How many threads have it for reading that it does not record."""
        return self.held.count if isinstance(self.held, NotRecorded) and self.held.way == READERS else 0

    def as_lock(self, waiters: Sequence[Waiter]) -> Lock:
        """The lock for the report."""
        lock = Lock(self.id, self.kind, self.address, self.name, self.state, self.holders, tuple(waiters),
                    self.candidates, wait_for=self.wait_for or kind_of(self.kind).wait_for, why=self.why,
                    shared=self.shared, of_object=self.of_object)
        if isinstance(self.held, Orphaned):
            return replace(lock, orphan=self.held.reason, orphan_evidence=self.held.evidence)
        return replace(lock, foreign_owner=self.held.tid) if isinstance(self.held, Elsewhere) else lock


def with_owner_gone(lock: SeenLock, gone: Gone) -> SeenLock:
    """A lock whose recorded owner is not a thread of the process."""
    held = Orphaned(gone.orphan, gone.evidence) if gone.orphan is not None else lock.held
    return replace(lock, held=held, why=gone.why)


def without_owner(kind: LockKind, address: int, state: str, what: str, mode: Mode = EXCLUSIVE,
                  readers: int = 0) -> SeenLock:
    """A lock that records no owner: free, held by counted readers, or by one thread.

    :param what: the kind in the reason ``records-no-owner``.
    """
    if readers:
        return SeenLock(kind, address, state, mode, held=NotRecorded(READERS, readers))
    if state == FREE:
        return SeenLock(kind, address, state, mode, why=because("lock-about-to-be-taken"))
    return SeenLock(kind, address, state, mode, held=NotRecorded(MENTIONS), why=because("records-no-owner", what=what))


def for_purpose(event: SeenLock, purpose: Reason) -> SeenLock:
    """An event with the purpose of the thread that sleeps on it, before the reason why no holder is known."""
    return replace(event, why=because("several", reasons=(purpose, event.why)) if event.why is not None else purpose)


def job_of_pool(event: SeenLock, why: ReasonCode) -> SeenLock:
    """The job of a thread pool, which ends when code of the pool's file signals an event.

    :param event: the condition variable or the like on which the thread sleeps.
    """
    return SeenLock(POOL_JOB, event.address, "not finished", why=because(why))


@record
class SeenWait:
    """What a thread waits for: a lock, or what `text` says.

    A `timed` wait can end by itself, in at most `seconds` if that is known. `syscall` is the name of the call if the
    kernel has lost its number. `why` explains a wait that does not follow from the system call. If `is_known` is false
    the thread may have been running.
    """

    text: Reason | None = None
    lock: SeenLock | None = None
    timed: bool = False
    syscall: str | None = None
    why: Reason | None = None
    is_known: bool = True
    mode: Mode = EXCLUSIVE
    evidence: Evidence = RECORDED
    seconds: float | None = None


def merge(ways: Sequence[SeenLock]) -> SeenLock:
    """Merge a lock that several waits show: the states of all, under the first name found."""
    first = ways[0]
    if len(ways) == 1:
        return first
    if kind_of(first.kind).behaviour == "outside":
        whys = tuple(dict.fromkeys(lock.why for lock in ways if lock.why is not None))[:_MOST_REASONS]
        return replace(first, state=" or ".join(dict.fromkeys(lock.state for lock in ways)),
                       why=joined(whys))
    named = next((lock for lock in ways if lock.name is not None), first)
    return replace(first, name=named.name, of_object=named.of_object,
                   shared=any(lock.shared for lock in ways),
                   known_by=frozenset().union(*(lock.known_by for lock in ways)))


def inferred(lock: SeenLock, numbers: Collection[int], why: Reason) -> SeenLock:
    """A lock with holders that circumstance shows."""
    return replace(lock, held=held_by(numbers, INFERRED, why), why=why)


def one_inside(threads: Threads, lock: SeenLock, inside: Collection[int], where: str) -> SeenLock:
    """A lock with the thread that is inside code for which only one thread can hold the lock.

    :param where: a term for that code.
    """
    numbers = tuple(sorted(inside))
    if len(numbers) == 1 and threads.all_available:
        return inferred(lock, numbers, because("only-thread-inside", where=where))
    if not numbers:
        return replace(lock, why=because("nobody-inside", where=where))
    return replace(lock, held=may_be_held_by(numbers), why=because("maybe-inside", where=where))
