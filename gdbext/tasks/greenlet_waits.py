"""Greenlets of gevent and eventlet: what they wait for, and which greenlet holds the lock.

What wakes a greenlet is in memory (`cpython.green_waits`). An ``RLock`` records the greenlet that has it. A semaphore
records none: its holder is the greenlet inside a `with` block of it, if only one greenlet can have it and no other
may have released it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Final, NamedTuple

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.greenlets.greenlets import CURRENT, SUSPENDED, GreenletReader
from gdbext.cpython.greenlets.greenlets import Greenlet as RawGreenlet
from gdbext.cpython.greenlets.waits import ASYNC, TIMER, GreenLocks, Waker
from gdbext.cpython.locking.locks import PyLock
from gdbext.cpython.locking.taken import TakenLock
from gdbext.cpython.runtime import InterpreterState
from gdbext.errors import GdbextError, UnknownLayout, if_unreadable
from gdbext.holders.references import References
from gdbext.locks.python_reader import Reader
from gdbext.locks.seen import SeenLock
from gdbext.model import DERIVED, INFERRED, RECORDED, Evidence, Greenlet, GreenletWait, ProblemKind, PyFrame
from gdbext.model.reasons import Reason, because, because_of
from gdbext.model.standard_library import module_of, role_of
from gdbext.threads.python_side import Python
from gdbext.waits.context import Context

READY: Final = "ready"

#: Files whose functions wait on behalf of the program.
_LIBRARY = re.compile(r"(?:^|/)(?:gevent|eventlet)/[\w/]+\.py$")
_PATCHED = frozenset(("threading", "queue"))
#: How many greenlets that wait for an object are searched for a name of it.
_MAX_NAMING = 4


class _Stack(NamedTuple):
    """The frames of a greenlet, innermost first; `greenlet` is its address, 0 for a thread without greenlets."""

    greenlet: int
    frames: Sequence[RawFrame]


class _Holding(NamedTuple):
    """The greenlet that has a lock, and how that is known."""

    greenlet: int
    evidence: Evidence
    why: Reason | None
    taken_at: PyFrame | None


def find_greenlet_waits(context: Context, greenlets: Sequence[Greenlet]) -> tuple[Greenlet, ...]:
    """Add to greenlets what they wait for; what cannot be read is noted in the findings."""
    waits: dict[int, GreenletWait] = {}
    hubs: set[int] = set()
    if any(_is_suspended(each) for each in greenlets):
        for python in context.python.pythons:
            for interpreter in python.interpreters:
                reader = context.python.greenlets(python, interpreter)
                try:
                    if reader.is_used and reader.greenlets and reader.green.is_used:
                        hubs.update(reader.green.hubs)
                        waits.update(_Interpreter(context, python, interpreter, reader).waits())
                except GdbextError as error:
                    what: ProblemKind = "not applicable" if isinstance(error, UnknownLayout) else "unreadable"
                    where = f"gevent or eventlet in interpreter {interpreter.id}"
                    context.findings.problem(where, what, because_of(error))
    made = tuple([replace(each, waits=waits.get(each.address)) if _is_suspended(each) else each for each in greenlets])
    # the greenlet of a hub continues when another one switches to it
    unknown = sum(_is_suspended(each) and not each.is_main and each.waits is None and each.address not in hubs
                  for each in made)
    if unknown:
        context.findings.notes.append(because("greenlets-not-judged", count=unknown))
    return made


def _is_suspended(greenlet: Greenlet) -> bool:
    return greenlet.state == SUSPENDED and greenlet.thread is not None


class _Interpreter:
    """gevent and eventlet in one interpreter."""

    def __init__(self, context: Context, python: Python, interpreter: InterpreterState,
                 reader: GreenletReader) -> None:
        self._context = context
        self._python = python
        self._objects = python.objects
        self._greenlets = reader
        self._green = reader.green
        self._numbers = {tstate.address: number for tstate in interpreter.threads
                         if (number := context.python.number_of_tstate.get(tstate.address)) is not None}
        locks = GreenLocks(context.memory, python.runtime.layouts, python.objects, reader.green)
        self._reader = Reader(context.memory, python, (), locks)
        # by object: how many greenlets were searched for its name, the name, and what frames know it by
        self._searched: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._known_by: dict[int, set[int]] = {}

    def waits(self) -> dict[int, GreenletWait]:
        """What each suspended greenlet that can be resumed waits for, by its address; without those not known."""
        found: dict[int, GreenletWait] = {}
        locks: dict[int, PyLock] = {}
        for each in self._suspended:
            wakers = self._green.wakers.get(each.address, ())
            if not wakers:
                continue
            lock = self._lock_of(each, wakers)
            found[each.address] = self._wait(each, wakers, lock)
            if lock is not None and found[each.address].locked:
                locks[each.address] = lock
        # the names are needed first: frames know a lock by the object that has it, too
        for address, lock in locks.items():
            holding = self._holding(lock)
            if holding is not None:
                found[address] = replace(found[address], holders=(holding.greenlet,), evidence=holding.evidence,
                                         why=holding.why, taken_at=holding.taken_at)
        return found

    @cached_property
    def _suspended(self) -> Sequence[RawGreenlet]:
        return [each for each in self._greenlets.greenlets
                if each.state == SUSPENDED and each.tstate in self._numbers]

    @if_unreadable(())
    def _frames(self, greenlet: RawGreenlet) -> Sequence[RawFrame]:
        return self._greenlets.stack(greenlet)

    # -- what is waited for ----------------------------------------------------------------------------------

    def _wait(self, greenlet: RawGreenlet, wakers: Sequence[Waker], lock: PyLock | None) -> GreenletWait:
        if any(waker.role == "callback" for waker in wakers):
            return GreenletWait(READY, others=1)
        objects = [waker for waker in wakers if waker.role in ("linkable", "queue", "greenlet")]
        timers = [waker for waker in wakers if waker.watches == TIMER]
        joined = tuple(sorted({waker.address for waker in objects if waker.role == "greenlet"}))
        others = [waker for waker in wakers if waker.role != "greenlet" and waker not in timers]
        timed = bool(timers)
        if lock is not None:
            address = lock.address
            # a lock that is free, or about to wake greenlets, ends the wait
            ends = not lock.locked or any(waker.watches not in (None, *ASYNC) for waker in others)
            return GreenletWait(self._class(address), address, self._name(greenlet, address), others=int(ends),
                                locked=lock.locked, timed=timed)
        if len(objects) == 1 and objects[0].role != "greenlet":
            kind, address, of = self._through(greenlet, objects[0].address)
            return GreenletWait(kind, address, self._name(greenlet, address), of, 0 if of else 1, timed=timed)
        if objects:
            several = "gevent.wait" if len(objects) > 1 else None
            return GreenletWait(several, greenlets=joined, others=len(others), timed=timed)
        watched = next((waker.watches for waker in others if waker.watches), TIMER)
        return GreenletWait(watched.rstrip("_"), others=len(others), timed=timed)

    def _lock_of(self, greenlet: RawGreenlet, wakers: Sequence[Waker]) -> PyLock | None:
        """The lock that a greenlet waits for; None if it waits for anything else, or for more than one object."""
        objects = [waker for waker in wakers if waker.role in ("linkable", "queue", "greenlet")]
        if len(objects) != 1 or any(waker.role == "callback" for waker in wakers):
            return None
        semaphore = self._green.semaphore(objects[0].address)
        if semaphore is None:
            return None
        is_locked = not semaphore.counter and not semaphore.notifies
        address = self._green.rlock_of.get(objects[0].address)
        if address is None:
            waited, recursive = self._patched(greenlet, objects[0].address)
            if waited is not None:
                return None
            address = recursive or objects[0].address
        try:
            lock = self._reader.locks.decode(address)
        except GdbextError:
            return None
        return replace(lock, locked=lock.locked and is_locked) if lock is not None else None

    @if_unreadable((None, 0))
    def _patched(self, greenlet: RawGreenlet, semaphore: int) -> tuple[RawFrame | None, int]:
        """What the standard library waits for with a lock of gevent or eventlet, after monkey-patching.

        :return: the outermost frame of `threading` and `queue` that waits for something else than the lock, and the
            ``threading.RLock`` that the lock is a part of, or 0.
        """
        waited, recursive = None, 0
        for raw in self._frames(greenlet):
            if _LIBRARY.search(raw.frame.file):
                continue
            if module_of(raw.frame.file) not in _PATCHED:
                break
            owner = self._variable(raw, "self")
            kind = self._objects.type_name(owner) if owner else ""
            sleeps = raw.frame.function == "wait" and self._variable(raw, "waiter") == semaphore
            joins = kind == "Thread" and role_of(raw.frame) == "joins-thread"
            if sleeps or joins or (owner and waited is not None and role_of(raw.frame) != "runs-thread"):
                waited = raw
            elif kind == "_RLock":
                lock = self._reader.locks.decode(owner)
                recursive = owner if lock is not None and lock.guard == semaphore else 0
        return waited, recursive

    def _variable(self, raw: RawFrame, name: str) -> int:
        return dict(self._reader.frames.variables(raw)).get(name) or 0

    def _through(self, waiter: RawGreenlet, address: int) -> tuple[str, int, tuple[int, ...]]:
        """The class and the address of the object that a greenlet waits for, and the greenlets that it waits to end."""
        waited, _ = self._patched(waiter, address)
        owner = self._variable(waited, "self") if waited is not None else 0
        if waited is None or not owner:
            return self._green.objects.class_name(address), address, ()
        module = module_of(waited.frame.file)
        kind = self._objects.type_name(owner)
        name = f"{module}.{kind}" if module and "." not in kind else kind
        if kind != "Thread":
            return name, owner, ()
        # after monkey-patching the ident of a thread is the address of its greenlet
        ident = self._objects.attribute(owner, "_ident")
        greenlet = self._objects.integer(ident) if ident and self._objects.type_name(ident) == "int" else 0
        return name, owner, (greenlet,) if self._states.get(greenlet) == SUSPENDED else ()

    @if_unreadable("lock")
    def _class(self, address: int) -> str:
        kind = self._green.objects.class_name(address)
        return "threading.RLock" if kind.endswith("._RLock") else kind

    def _name(self, greenlet: RawGreenlet, address: int) -> str | None:
        if self._searched.get(address, 0) < _MAX_NAMING:
            self._searched[address] = self._searched.get(address, 0) + 1
            named = self._reader.names.find([raw for raw in self._frames(greenlet)
                                             if not _LIBRARY.search(raw.frame.file)], [address])
            if named is not None:
                self._names.setdefault(address, named.text)
                if named.object:
                    self._known_by.setdefault(address, set()).add(named.object)
        return self._names.get(address)

    # -- which greenlet holds it -----------------------------------------------------------------------------

    def _holding(self, lock: PyLock) -> _Holding | None:
        takers = self._inside.get(lock.address, ())
        recorded = self._green.rlock(lock.address)
        if recorded is not None:
            # only its owner can release it, so it needs no other proof
            if recorded.owner not in self._states or recorded.count <= 0:
                return None
            taken_at = next((taken.at for stack, taken in takers if stack.greenlet == recorded.owner), None)
            return _Holding(recorded.owner, RECORDED, None, taken_at)
        if len(takers) != 1 or (lock.owner is None and self._green.is_scheduled_with(lock.address)):
            return None  # a call of the event loop may release it
        (stack, taken), = takers
        if not stack.greenlet or taken.released or (lock.owner is not None and lock.owner != stack.greenlet):
            return None
        if lock.owner is not None:  # a `threading.RLock` in Python records the address of the greenlet
            return _Holding(stack.greenlet, RECORDED, None, taken.at)
        seen = SeenLock(lock.kind, lock.address, lock.state, known_by=frozenset(
            (lock.address, *self._known_by.get(lock.address, ()))))
        known = References([seen])
        if taken.call is None:
            if any(self._reader.taken.releases(raw) and known.find(self._reader, raw)
                   for raw in self._others(stack)):
                return None
            return _Holding(stack.greenlet, DERIVED, because("in-greenlet-with-block"), taken.at)
        if taken.call.ways == "none" or taken.unless_waiting or any(
                self._reader.taken.may_release(raw, lock.address, partial(known.find, self._reader, raw))
                for raw in self._others(stack)):
            return None
        is_proven = taken.call.is_local and taken.call.ways == "all"
        why = because("acquired-by-call" if taken.call.ways == "all" else "acquired-by-call-normally",
                      expression=taken.call.expression)
        return _Holding(stack.greenlet, DERIVED if is_proven else INFERRED, why, taken.at)

    def _others(self, stack: _Stack) -> Iterator[RawFrame]:
        return (raw for each in self._stacks if each is not stack for raw in each.frames)

    @cached_property
    def _states(self) -> Mapping[int, str]:
        return {each.address: each.state for each in self._greenlets.greenlets}

    @cached_property
    def _stacks(self) -> Sequence[_Stack]:
        """The frames of all greenlets that can run, and of threads."""
        found = [_Stack(each.address, self._frames(each)) for each in self._suspended]
        current = {self._numbers.get(each.tstate or 0): each.address for each in self._greenlets.greenlets
                   if each.state == CURRENT}
        for seen in self._context.threads:
            found += [_Stack(current.get(seen.number, 0), stack) for reader, stack in
                      self._context.python_locks.stacks(seen.number) if reader.objects is self._objects]
        return found

    @cached_property
    def _inside(self) -> Mapping[int, Sequence[tuple[_Stack, TakenLock]]]:
        """By lock (``PyObject *``): the stacks that have taken it in a `with` statement or by ``acquire``."""
        found: dict[int, list[tuple[_Stack, TakenLock]]] = {}
        for stack in self._stacks:
            # a recursive lock was taken in its outermost block, which is the last
            for address, taken in {each.lock: each for each in self._reader.taken.of(stack.frames)}.items():
                found.setdefault(address, []).append((stack, taken))
        return found
