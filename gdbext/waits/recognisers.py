"""The recognisers of waits in their order. The first that recognises what a thread waits for wins."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from gdbext.errors import GdbextError
from gdbext.locks.seen import SeenWait
from gdbext.model.kinds import FUTEX
from gdbext.model.reasons import because_of
from gdbext.threads.threads import SeenThread
from gdbext.waits.context import Context
from gdbext.waits.gil import gil_wait, lone_gil_waits
from gdbext.waits.lock_kinds import NAMED_KINDS
from gdbext.waits.native import futex_wait, outside_wait, spinning_wait
from gdbext.waits.polling import asks_again
from gdbext.waits.time_left import time_left


def python_lock_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's wait for a Python lock."""
    futex = seen.futex
    if futex is None or futex.expected:  # a thread that waits for a semaphore expects the value 0
        return None
    for python, tstate in context.python.thread(seen.number).tstates:
        try:
            found = context.python_locks.find(python, seen, tstate.address, futex.address)
        except GdbextError as error:
            context.findings.doubt(f"thread {seen.number}", because_of(error, "python-wait"))
            continue
        if found is not None:
            return SeenWait(None, found, futex.timed)
    return None


def parked_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's wait in CPython's parking lot, or for a world to stop."""
    lock = context.parked.find_lock(seen)
    if lock is None:
        return None
    timed = not lock.repeats and seen.futex is not None and seen.futex.timed
    return SeenWait(None, lock, timed, mode=lock.mode)


def blocked_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's wait in a system call other than a futex call."""
    return context.blocked.find(seen)


Recogniser = Callable[[SeenThread, Context], "SeenWait | None"]

RECOGNISERS: tuple[Recogniser, ...] = (
    # a GIL consists of a mutex and a condition variable
    gil_wait,
    # a Python lock is a semaphore, or its waiters are parked
    python_lock_wait,
    parked_wait,
    outside_wait,
    futex_wait,
    spinning_wait,
    # any other system call
    blocked_wait,
)


_UNKNOWN = SeenWait(is_known=False)


def find_waits(context: Context) -> dict[int, SeenWait]:
    """Find what each thread waits for, by the thread's number."""
    waits: dict[int, SeenWait] = {}
    for seen in context.threads:
        found = context.findings.guard("waits", functools.partial(_find_wait, seen, context), _UNKNOWN)
        if found is not None:
            waits[seen.number] = found
    nothing: dict[int, SeenWait] = {}
    waits.update(context.findings.guard("waits", lambda: lone_gil_waits(waits, context), nothing))
    return _with_known_kinds(waits)


def _find_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    found = next(filter(None, (recognise(seen, context) for recognise in RECOGNISERS)), None)
    name = (seen.call.name or (found.syscall if found is not None else None) or
            ("futex" if seen.futex is not None else None)) if seen.call is not None else None
    if found is None or not found.timed or seen.call is None or name is None:
        return found
    if found.lock is not None and asks_again(seen, found.lock, context):
        return replace(found, lock=replace(found.lock, repeats=True), timed=False)
    proc = context.target.proc
    return replace(found, seconds=time_left(context.memory, seen.call, name, proc.now if proc is not None else None))


def _with_known_kinds(waits: Mapping[int, SeenWait]) -> dict[int, SeenWait]:
    """The waits, with the kind of lock that one waiter's stack shows for all waiters at the same address.

    A stack may only show a futex word. What is inside a ``multiprocessing.BoundedSemaphore(1)`` looks like a Lock.
    """
    locks = [wait.lock for wait in waits.values() if wait.lock is not None]
    known = {(FUTEX, lock.address): lock for lock in locks if lock.kind in NAMED_KINDS}
    known.update({("py-lock", lock.address): lock for lock in locks if lock.kind == "py-semaphore"})
    return {number: replace(wait, lock=known.get((wait.lock.kind, wait.lock.address), wait.lock))
            if wait.lock is not None else wait for number, wait in waits.items()}
