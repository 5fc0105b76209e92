"""What recognisers find: a lock as its memory shows it, and a thread's wait for a lock or for something else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from gdbext.cpython.locks import PyLock
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


def held_by(numbers: Iterable[int | None], evidence: Evidence = RECORDED, why: Reason | None = None,
            mode: Mode = EXCLUSIVE, taken_at: PyFrame | None = None) -> tuple[Holder, ...]:
    """Make holders of the numbers of threads; None is left out."""
    return tuple([Holder(number, mode, evidence, why, taken_at) for number in numbers if number is not None])


@record
class SeenLock:
    """A lock as its memory shows it, before all its holders are found.

    `holders` and `candidates` are the threads that are known already. `owner` is a recorded TID, `owner_descriptor` a
    recorded ``struct pthread *`` that is not of a thread of the process. `count` is the number of holders that the lock
    counts but does not record, `find_holders` the way to find them. With `elsewhere` the owner may be in another
    process. `mode` is that of the waiting thread. A thread that `repeats` its timed waits waits forever.

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
    owner: int | None = None
    owner_descriptor: int | None = None
    holders: tuple[Holder, ...] = ()
    repeats: bool = False
    count: int = 0
    find_holders: str | None = None
    candidates: tuple[int, ...] = ()
    elsewhere: bool = False
    why: Reason | None = None
    name: str | None = None
    orphan: Reason | None = None
    orphan_evidence: Evidence = RECORDED
    foreign_owner: int | None = None
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

    def as_lock(self, waiters: Sequence[Waiter]) -> Lock:
        """The lock for the report."""
        return Lock(self.id, self.kind, self.address, self.name, self.state, self.holders, tuple(waiters),
                    self.candidates, self.orphan, self.wait_for or kind_of(self.kind).wait_for, self.orphan_evidence,
                    self.why, self.elsewhere, self.foreign_owner, self.of_object)


def without_owner(kind: LockKind, address: int, state: str, what: str, mode: Mode = EXCLUSIVE,
                  readers: int = 0) -> SeenLock:
    """A lock that records no owner: free, held by counted readers, or by one thread.

    :param what: the kind in the reason ``records-no-owner``.
    """
    if readers:
        return SeenLock(kind, address, state, mode, count=readers, find_holders=READERS)
    if state == FREE:
        return SeenLock(kind, address, state, mode, why=because("lock-about-to-be-taken"))
    return SeenLock(kind, address, state, mode, find_holders=MENTIONS, why=because("records-no-owner", what=what))


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
                   elsewhere=any(lock.elsewhere for lock in ways),
                   known_by=frozenset().union(*(lock.known_by for lock in ways)))


def inferred(lock: SeenLock, numbers: Collection[int], why: Reason) -> SeenLock:
    """A lock with holders that circumstance shows."""
    return replace(lock, holders=held_by(numbers, INFERRED, why), why=why)


def one_inside(threads: Threads, lock: SeenLock, inside: Collection[int], where: str) -> SeenLock:
    """A lock with the thread that is inside code for which only one thread can hold the lock.

    :param where: a term for that code.
    """
    numbers = tuple(sorted(inside))
    if len(numbers) == 1 and threads.all_available:
        return inferred(lock, numbers, because("only-thread-inside", where=where))
    if not numbers:
        return replace(lock, why=because("nobody-inside", where=where))
    return replace(lock, candidates=numbers, why=because("maybe-inside", where=where))
