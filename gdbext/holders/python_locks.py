"""Finds the holders of Python locks.

Some kinds record their owner. A plain `_thread.lock` does not: its holder is the thread inside a `with` block of the
lock (`DERIVED`), or the thread whose function has called ``acquire`` and will call ``release`` (`DERIVED` or
`INFERRED`). Otherwise the threads whose frames refer to the lock are candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from gdbext.cpython.taken import AcquireCall, TakenLock
from gdbext.holders.references import References
from gdbext.model import DERIVED, INFERRED
from gdbext.model.kinds import kind_of
from gdbext.model.reasons import because, joined
from gdbext.remembered import remembered
from gdbext.threads.threads import Threads
from gdbext.waits.python_locks import PythonLocks
from gdbext.waits.seen import SeenLock, held_by

if TYPE_CHECKING:
    from gdbext.holders.owners import HolderContext

_INSIDE = because("in-with-block")


class PythonFrames:
    """The locks in the Python frames of all threads; each stack is read once.

    :param wanted: the locks that threads wait for.
    """

    def __init__(self, threads: Threads, locks: PythonLocks, wanted: Collection[SeenLock]) -> None:
        self._threads = threads
        self._locks = locks
        self._wanted = wanted

    @remembered
    def taken_by(self, number: int) -> Mapping[int, TakenLock]:
        """The locks (``PyObject *``) that a thread has taken in `with` statements and by calls of ``acquire``."""
        # a recursive lock was taken in its outermost block, which is the last
        return {taken.lock: taken for reader, stack in self._locks.stacks(number) for taken in reader.taken.of(stack)}

    @cached_property
    def inside(self) -> Mapping[int, Sequence[tuple[int, TakenLock]]]:
        """By lock (``PyObject *``): the threads that have taken it in a `with` statement or by ``acquire``."""
        found: dict[int, list[tuple[int, TakenLock]]] = {}
        for seen in self._threads:
            for address, taken in self.taken_by(seen.number).items():
                found.setdefault(address, []).append((seen.number, taken))
        return found

    @cached_property
    def users(self) -> Mapping[str, Collection[int]]:
        """By id of a lock that threads wait for: the threads whose frames refer to it."""
        known = References(self._wanted)
        numbers: dict[str, set[int]] = {}
        for seen in self._threads:
            for reader, stack in self._locks.stacks(seen.number):
                for raw in stack:
                    for found in known.find(reader, raw):
                        numbers.setdefault(found.id, set()).add(seen.number)
        return numbers

    def refers(self, number: int, lock: SeenLock) -> bool:
        """Whether a frame of a thread refers to a lock."""
        known = References([lock])
        return any(known.find(reader, raw) for reader, stack in self._locks.stacks(number) for raw in stack)

    def is_searchable(self, number: int) -> bool:
        """Whether a thread has any Python frame."""
        return any(stack for _, stack in self._locks.stacks(number))

    def released_by_others(self, number: int, lock: SeenLock) -> bool:
        """Whether a thread other than the holder may release a lock; some programs use a lock to send a signal."""
        known = References([lock])
        return any(reader.taken.releases(raw) and known.find(reader, raw)
                   for seen in self._threads if seen.number != number
                   for reader, stack in self._locks.stacks(seen.number) for raw in stack)

    def may_be_released(self, number: int, lock: SeenLock) -> bool:
        """Whether a thread other than the holder may release a lock without acquiring it first."""
        if lock.python is None:
            return True
        known = References([lock])
        return any(reader.taken.may_release(raw, lock.python.address, partial(known.find, reader, raw))
                   for seen in self._threads if seen.number != number
                   for reader, stack in self._locks.stacks(seen.number) for raw in stack)


def python_owner(found: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The recorded owner of a Python lock; None if the lock is held without a recorded owner.

    The owner is recorded as a thread's ident. If the owner exits without releasing the lock, a new thread may get
    that ident. So a thread is the owner only if one of its frames refers to the lock.
    """
    lock = found.python
    if lock is None:
        return None
    kind = kind_of(lock.kind)
    if kind.no_owner is not None:
        no_owner = because(kind.no_owner)
        return replace(found, why=no_owner if lock.why is None else joined((lock.why, no_owner)))
    if not lock.locked:
        return replace(found, why=because("lock-about-to-be-taken"))
    all_passed_on = context.waits.parked.passed_on
    passed_on = next((all_passed_on[word] for word in lock.words if word in all_passed_on), None)
    if passed_on is not None:
        return replace(found, holders=held_by((passed_on,)))
    if lock.owner is None:
        return replace(found, why=because("held-by-another-process")) if lock.shared else None
    number = context.waits.threads.number_of_pthread.get(lock.owner)
    if number is not None:
        taken = context.frames.taken_by(number).get(lock.address)
        # a thread handle records the ident of a thread that has not ended
        if not kind.ends_thread and taken is None:
            suspended = context.suspended.certain(number, found)
            taken = suspended.taken if suspended is not None else None
        if not kind.ends_thread and taken is None and not context.frames.refers(number, found):
            if not context.frames.is_searchable(number) or context.finder.is_in_code_of(number, lock):
                why = because("owner-ident-compiled", thread=number)
                return replace(found, holders=held_by((number,), INFERRED, why))
            return replace(found, candidates=(number,), why=because("owner-ident-reused", thread=number))
        return replace(found, holders=held_by((number,), taken_at=taken.at if taken else None))
    orphan, evidence, why = context.gone.by_descriptor(lock.owner)
    return replace(found, orphan=orphan, orphan_evidence=evidence, why=why)


def inside_with(found: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The thread inside a `with` block of a Python lock, or between ``acquire`` and ``release``, if that is certain."""
    takers = context.frames.inside.get(found.python.address, ()) if found.python is not None else ()
    # a function that does not release what it acquires may leave that to another thread, and then has it no longer
    sure = [(number, taken) for number, taken in takers if taken.call is None or taken.call.ways != "none"]
    if len(sure) > 1:
        with_only = all(taken.call is None for _, taken in sure)
        return replace(found, candidates=tuple(sorted(number for number, _ in sure)),
                       why=because("in-several-with-blocks" if with_only else "acquired-by-several"))
    for number, taken in sure:
        if taken.call is None:
            return _of_block(found, number, taken, waiters, context)
        return _of_call(found, number, taken, taken.call, waiters, context)
    candidates = tuple(sorted(number for number, _ in takers if number not in waiters))
    if candidates:
        return replace(found, candidates=candidates, why=because("acquired-not-released"))
    return None


def _of_block(found: SeenLock, number: int, taken: TakenLock, waiters: Collection[int],
              context: HolderContext) -> SeenLock:
    waits = number in waiters
    doubtful = context.frames.released_by_others(number, found) if waits else taken.unless_waiting
    if taken.released or doubtful:
        return replace(found, candidates=(number,), why=because("maybe-left-with-block"))
    return replace(found, holders=held_by((number,), DERIVED, _INSIDE, taken_at=taken.at))


def _of_call(found: SeenLock, number: int, taken: TakenLock, call: AcquireCall, waiters: Collection[int],
             context: HolderContext) -> SeenLock:
    if number in waiters:
        # a lock that is acquired twice is often a signal, which another thread sends by releasing it
        return replace(found, candidates=(number,), why=because("acquired-and-waits"))
    if taken.released or taken.unless_waiting or context.frames.may_be_released(number, found):
        return replace(found, candidates=(number,), why=because("maybe-released-since"))
    is_proven = call.is_local and call.ways == "all"
    why = because("acquired-by-call" if call.ways == "all" else "acquired-by-call-normally", expression=call.expression)
    return replace(found, holders=held_by((number,), DERIVED if is_proven else INFERRED, why, taken_at=taken.at))


def known_by_frames(found: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The threads whose frames refer to a Python lock, as candidates."""
    if found.python is None:
        return None
    users = context.frames.users.get(found.id, ())
    return replace(found, candidates=tuple(sorted(set(users) - set(waiters))),
                   why=because("records-no-owner", what="python-lock"))
