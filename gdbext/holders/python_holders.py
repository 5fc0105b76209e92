"""Finds the holders of Python locks.

Some kinds record their owner. A plain `_thread.lock` does not: its holder is the thread inside a `with` block of the
lock (`DERIVED`), or the thread whose function has called ``acquire`` and will call ``release`` (`DERIVED` or
`INFERRED`). Otherwise the threads whose frames refer to the lock are candidates.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gdbext.cpython.locking.locks import PyLock
from gdbext.cpython.locking.taken import AcquireCall, TakenLock
from gdbext.holders.context import HolderContext
from gdbext.locks.seen import Orphaned, SeenLock, held_by, may_be_held_by, with_owner_gone
from gdbext.model import DERIVED, INFERRED
from gdbext.model.kinds import kind_of
from gdbext.model.reasons import because, joined
from gdbext.threads.gone import NOT_LIVING

_INSIDE = because("in-with-block")


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
        reasons = [lock.why, because(kind.no_owner)]
        if lock.shared and len(context.waits.threads) == 1 and _is_alone(lock, context):
            reasons.append(because("in-no-other-process"))
        return replace(found, why=joined([why for why in reasons if why is not None]))
    if not lock.locked:
        return replace(found, why=because("lock-about-to-be-taken"))
    all_passed_on = context.waits.parked.passed_on
    passed_on = next((all_passed_on[word] for word in lock.words if word in all_passed_on), None)
    if passed_on is not None:
        return replace(found, held=held_by((passed_on,)))
    if lock.owner is None:
        return _in_another_process(found, lock, context) if lock.shared else None
    number = context.waits.threads.number_of_pthread.get(lock.owner)
    if number is not None:
        taken = context.frames.taken_by(number).get(lock.address)
        # a thread handle records the ident of a thread that has not ended
        if kind.behaviour != "thread-end" and taken is None:
            suspended = context.suspended.certain(number, found)
            taken = suspended.taken if suspended is not None else None
        # no earlier thread had the ident of the thread that began the process
        is_first = number == context.waits.threads.first and context.gone.was_forked() is False
        if kind.behaviour != "thread-end" and taken is None and not is_first and not context.frames.refers(
                number, found):
            if not context.frames.is_searchable(number) or context.finder.is_in_code_of(number, lock):
                why = because("owner-ident-compiled", thread=number)
                return replace(found, held=held_by((number,), INFERRED, why))
            return replace(found, held=may_be_held_by((number,)), why=because("owner-ident-reused", thread=number))
        return replace(found, held=held_by((number,), taken_at=taken.at if taken else None))
    return with_owner_gone(found, context.gone.by_descriptor(lock.owner))


def _in_another_process(found: SeenLock, lock: PyLock, context: HolderContext) -> SeenLock:
    """A lock of `multiprocessing` that this process has not acquired: another one has, or had until it ended."""
    if _is_alone(lock, context):
        return replace(found, held=Orphaned(NOT_LIVING, DERIVED), why=because("holding-process-ended"))
    return replace(found, why=because("held-by-another-process"))


def _is_alone(lock: PyLock, context: HolderContext) -> bool:
    """Whether no other process has the memory of a lock of `multiprocessing`."""
    proc = context.waits.target.proc
    sharers = proc.sharers(lock.words[0]) if proc is not None and lock.words else None
    return sharers is not None and sharers.complete and not sharers.others


def inside_with(found: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The thread inside a `with` block of a Python lock, or between ``acquire`` and ``release``, if that is certain."""
    takers = context.frames.inside.get(found.python.address, ()) if found.python is not None else ()
    # a function that does not release what it acquires may leave that to another thread, and then has it no longer
    sure = [(number, taken) for number, taken in takers if taken.call is None or taken.call.ways != "none"]
    if len(sure) > 1:
        with_only = all(taken.call is None for _, taken in sure)
        return replace(found, held=may_be_held_by(number for number, _ in sure),
                       why=because("in-several-with-blocks" if with_only else "acquired-by-several"))
    for number, taken in sure:
        if taken.call is None:
            return _of_block(found, number, taken, waiters, context)
        return _of_call(found, number, taken, taken.call, waiters, context)
    candidates = [number for number, _ in takers if number not in waiters]
    if candidates:
        return replace(found, held=may_be_held_by(candidates), why=because("acquired-not-released"))
    return None


def _of_block(found: SeenLock, number: int, taken: TakenLock, waiters: Collection[int],
              context: HolderContext) -> SeenLock:
    waits = number in waiters
    doubtful = context.frames.released_by_others(number, found) if waits else taken.unless_waiting
    if taken.released or doubtful:
        return replace(found, held=may_be_held_by((number,)), why=because("maybe-left-with-block"))
    return replace(found, held=held_by((number,), DERIVED, _INSIDE, taken_at=taken.at))


def _of_call(found: SeenLock, number: int, taken: TakenLock, call: AcquireCall, waiters: Collection[int],
             context: HolderContext) -> SeenLock:
    if number in waiters:
        # a lock that is acquired twice is often a signal, which another thread sends by releasing it
        return replace(found, held=may_be_held_by((number,)), why=because("acquired-and-waits"))
    if taken.released or taken.unless_waiting or context.frames.may_be_released(number, found):
        return replace(found, held=may_be_held_by((number,)), why=because("maybe-released-since"))
    is_proven = call.is_local and call.ways == "all"
    why = because("acquired-by-call" if call.ways == "all" else "acquired-by-call-normally", expression=call.expression)
    return replace(found, held=held_by((number,), DERIVED if is_proven else INFERRED, why, taken_at=taken.at))


def inside_suspended(found: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The thread that alone can resume the suspended frame that is inside a `with` block of a Python lock."""
    takers = context.suspended.takers(found)
    if not takers:
        return None
    held = may_be_held_by({number for taker in takers for number in taker.threads})
    if len(takers) > 1:
        return replace(found, held=held, why=because("in-several-with-blocks"))
    taker, = takers
    number, at = taker.threads[0], taker.at
    if not taker.only:
        return replace(found, held=held, why=because("in-shared-generator", file=at.file, line=at.line))
    waits = number in waiters
    if taker.doubtful or (context.frames.released_by_others(number, found) if waits else taker.taken.unless_waiting):
        return replace(found, held=held, why=because("maybe-left-with-block"))
    why = because("in-suspended-task" if taker.what == "task" else "in-suspended-greenlet" if taker.what == "greenlet"
                  else "in-suspended-generator", file=at.file, line=at.line, thread=number)
    return replace(found, held=held_by((number,), DERIVED, why, taken_at=taker.taken.at))


def known_by_frames(found: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The threads whose frames refer to a Python lock, as candidates."""
    if found.python is None:
        return None
    users = context.frames.users.get(found.id, ())
    return replace(found, held=may_be_held_by(set(users) - set(waiters)),
                   why=because("records-no-owner", what="python-lock"))
