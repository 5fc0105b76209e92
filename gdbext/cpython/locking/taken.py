"""Finds the locks that a thread has taken: by the `with` blocks it is inside of, and by calls of ``acquire``.

This is the best evidence for a plain `_thread.lock`, which records no owner.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from gdbext.cpython.code.acquired import LockFlow, LockFlows, Ways
from gdbext.cpython.code.lock_calls import Place
from gdbext.cpython.code.with_blocks import WithBlocks
from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.locking.locks import LockReader
from gdbext.cpython.locking.places import PlaceReader
from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError, if_unreadable
from gdbext.model import PyFrame
from gdbext.model.standard_library import is_in, role_of

#: Deepest nesting of context managers that are written as generators.
_MAX_NESTING = 8
#: Largest number of attributes of one object that are read.
_MAX_ATTRIBUTES = 256
_TAKEN = ("py-lock", "py-rlock", "py-fast-rlock", "py-import")
_RELEASING = ("release", "release_lock", "__exit__")
_GENERATORS = frozenset(("_GeneratorContextManager", "_AsyncGeneratorContextManager"))


class AcquireCall(NamedTuple):
    """A call of ``acquire``: its expression, such as ``self.lock``, and the ways on which the function releases it.

    `is_local`: the expression is a local variable, whose value only the function itself can change.
    """

    expression: str
    ways: Ways
    is_local: bool


class TakenLock(NamedTuple):
    """A lock (``PyObject *``) that a `with` statement or a call of ``acquire`` has taken; `at` is the frame there.

    `released`: the lock may be free nevertheless, because the frame's function may have called ``release`` of some
    object, or because a function or context manager that it entered later may have and has access to the lock.
    `unless_waiting`: the same for a function that calls ``acquire`` before ``release``. If the thread waits for the
    lock now, it has not reached the ``release``. `call` is None for a `with` statement.
    """

    lock: int
    at: PyFrame
    released: bool
    unless_waiting: bool
    call: AcquireCall | None = None


class _Releaser(NamedTuple):
    """Code that may have released a lock: objects (``PyObject *``) it has access to, its globals, and names it uses."""

    objects: tuple[int, ...]
    namespace: int
    names: frozenset[str]
    acquires_first: bool


class TakenLocks:
    """Finds taken locks in the stacks of one runtime."""

    def __init__(self, objects: Objects, frames: FrameReader, withs: WithBlocks, locks: LockReader, flows: LockFlows,
                 places: PlaceReader) -> None:
        self._objects = objects
        self._frames = frames
        self._withs = withs
        self._locks = locks
        self._flows = flows
        self._places = places

    def of(self, stack: Sequence[RawFrame], later: Sequence[RawFrame] = ()) -> list[TakenLock]:
        """The locks that a thread has taken in a stack, the last taken first; unreadable locks are left out.

        A thread inside ``Condition.wait`` has released the condition's lock.

        :param stack: the frames of the thread, or of a suspended coroutine or generator, innermost first.
        :param later: the frames that the thread has entered since that was suspended, innermost first.
        """
        found: list[TakenLock] = []
        released_by_wait: set[int] = set()
        waits: list[RawFrame] = []
        releasers: list[Callable[[], _Releaser]] = []
        for depth, raw in enumerate((*later, *stack), -len(later)):
            try:
                taken = list(self._in_frame(raw, releasers))
            except GdbextError:
                taken = []
            if self._has_released(raw):
                releasers.append(partial(self._function, raw))
            if taken and waits:
                released_by_wait.update(map(self._lock_of_wait, waits))
                waits.clear()
            if depth >= 0:
                found += [lock._replace(at=_importer(stack, depth)) if is_in(lock.at, "importlib") else lock
                          for lock in taken if lock.lock not in released_by_wait]
            if raw.frame.function == "wait":
                waits.append(raw)
        return found

    def releases(self, raw: RawFrame) -> bool:
        """Whether a frame's function calls ``release`` of some object; True if its code is unreadable."""
        return self._code_releases(raw.code)

    @if_unreadable(True)
    def _code_releases(self, code: int) -> bool:
        return not self._frames.names_of(code).keys().isdisjoint(_RELEASING)

    def may_release(self, raw: RawFrame, lock: int, knows: Callable[[], object]) -> bool:
        """Whether a frame may release a lock (``PyObject *``) without acquiring it first.

        :param knows: whether the frame has access to the lock; called if the objects that it releases are not known.
        """
        if not self.releases(raw):
            return False
        flow = self._flows.of(raw.code)
        if flow is None:
            return bool(knows())
        places = [place for place in flow.releases_ahead(raw.offset) if not self._is_other(raw, flow, place, lock)]
        return any(place is not None and self._locked_by(raw, place) == lock for place in places) or (
            bool(places) and bool(knows()))

    def _has_released(self, raw: RawFrame) -> bool:
        """Whether a frame's function may have called ``release`` of some object before the current instruction."""
        if not self.releases(raw):
            return False
        flow = self._flows.of(raw.code)
        return flow is None or flow.has_released(raw.offset)

    def _in_frame(self, raw: RawFrame, releasers: list[Callable[[], _Releaser]],
                  nesting: int = 0) -> Iterator[TakenLock]:
        """The locks that a frame has taken. Appends the code that may have released locks of outer frames."""
        released = self._has_released(raw)
        for block in self._withs.of(raw):
            try:
                kinds = self._objects.type_names(block.manager)
                if not _GENERATORS.isdisjoint(kinds):
                    # a function with @contextmanager: the locks that it holds at its `yield`
                    generator = self._objects.attribute(block.manager, "gen")
                    inner = self._frames.generator(generator) if generator and nesting < _MAX_NESTING else None
                    if inner is not None:
                        yield from self._in_frame(inner, releasers, nesting + 1)
                        if self._has_released(inner):
                            releasers.append(partial(self._function, inner, True))
                    continue
                lock = self._managed_lock(block.manager, kinds)
                if lock:
                    sure, unless_waiting = self._released_by(releasers, lock)
                    at = replace(raw.frame, line=block.line, columns=None)
                    yield TakenLock(lock, at, released or sure, unless_waiting)
                elif self._enters_with_release(block.manager):
                    releasers.append(partial(_Releaser, self._around(block.manager), 0, frozenset(), False))
            except GdbextError:
                continue
        yield from self._acquired(raw, releasers)
        if role_of(raw.frame) == "imports":
            # since 3.15 it takes the module's lock without a `with`; the lock records its owner
            lock = self._frames.variable(raw, "lock")
            if lock:
                yield TakenLock(lock, raw.frame, True, True)

    # -- calls of ``acquire`` --------------------------------------------------------------------------------

    def _acquired(self, raw: RawFrame, releasers: Sequence[Callable[[], _Releaser]]) -> Iterator[TakenLock]:
        """The locks that a frame's function has acquired by calls on every way to the current instruction."""
        flow = self._flows.of(raw.code)
        for found in flow.acquired(raw.offset) if flow is not None else ():
            lock = self._locked_by(raw, found.place)
            if lock and flow is not None:
                released = not all(self._is_other(raw, flow, other, lock) for other in found.others)
                sure, unless_waiting = self._released_by(releasers, lock)
                at = replace(raw.frame, line=self._frames.line(raw.code, found.at), columns=None)
                yield TakenLock(lock, at, released or sure, unless_waiting, AcquireCall(
                    str(found.place), found.ways, self._places.is_only_here(raw, found.place)))

    @if_unreadable(0)
    def _locked_by(self, raw: RawFrame, place: Place) -> int:
        """The lock (``PyObject *``) that ``acquire`` of an expression takes, or 0."""
        value = self._places.value(raw, place)
        return self._managed_lock(value, self._objects.type_names(value)) if value else 0

    @if_unreadable(False)
    def _is_other(self, raw: RawFrame, flow: LockFlow, place: Place | None, lock: int) -> bool:
        """Whether the value of an expression was always another lock than this one."""
        if place is None or flow.is_reassigned(place):
            return False
        value = self._places.value(raw, place)
        found = self._locks.decode(value) if value else None
        return found is not None and lock not in (value, found.address, found.guard)

    # -- code that may have released a lock ------------------------------------------------------------------

    def _released_by(self, releasers: Sequence[Callable[[], _Releaser]], lock: int) -> tuple[bool, bool]:
        sure = unless_waiting = False
        for read in releasers:
            try:
                releaser = read()
                if self._knows(releaser, lock):
                    unless_waiting = True
                    sure = sure or not releaser.acquires_first
            except GdbextError:
                return True, True
        return sure, unless_waiting

    def _function(self, raw: RawFrame, is_done: bool = False) -> _Releaser:
        """A function that calls ``release``; `is_done` if it has already run that part of its code."""
        names = self._frames.names_of(raw.code)
        values = [value for value in self._frames.variable_values(raw) if value]
        first = min((names[name] for name in _RELEASING if name in names), default=len(names))
        return _Releaser(tuple([item for value in values for item in (value, *self._around(value))]),
                         self._frames.globals(raw), frozenset(names),
                         not is_done and names.get("acquire", len(names)) < first)

    @if_unreadable(())
    def _around(self, address: int) -> tuple[int, ...]:
        return tuple([value for _, value in itertools.islice(self._objects.attributes(address), _MAX_ATTRIBUTES)])

    def _enters_with_release(self, manager: int) -> bool:
        """Whether a context manager's ``__enter__`` is written in Python and calls ``release``."""
        for namespace in self._objects.class_namespaces(manager):
            for name in ("__enter__", "__aenter__"):
                function = self._objects.dict_get(namespace, name)
                if function and self._objects.type_name(function) == "function":
                    return self._code_releases(self._frames.code_of(function))
        return False

    def _knows(self, releaser: _Releaser, lock: int) -> bool:
        if any(self._is_or_has(value, lock) for value in releaser.objects):
            return True
        if not releaser.namespace:
            return False
        values = (self._objects.dict_get(releaser.namespace, name) for name in releaser.names)
        return any(self._is_or_has(value, lock) for value in values if value)

    @if_unreadable(False)
    def _is_or_has(self, address: int, lock: int) -> bool:
        if address == lock:
            return True
        found = self._locks.decode(address)
        return found is not None and lock in (found.address, found.guard)

    def _managed_lock(self, manager: int, kinds: Sequence[str]) -> int:
        """The lock that a context manager has taken, or 0 if it is not known to take one."""
        lock = self._locks.decode(manager)
        if lock is None:
            return 0
        if "Condition" in kinds:
            return lock.guard
        return lock.address if lock.kind in _TAKEN else 0

    @if_unreadable(0)
    def _lock_of_wait(self, raw: RawFrame) -> int:
        """The lock that a frame of ``Condition.wait`` has released; 0 for another function."""
        condition = self._frames.variable(raw, "self")
        lock = self._locks.decode(condition) if condition else None
        return lock.guard if lock is not None and lock.kind == "py-condition" else 0


def _importer(stack: Sequence[RawFrame], depth: int) -> PyFrame:
    """The frame outside importlib that imports the module."""
    return next((raw.frame for raw in stack[depth:] if not is_in(raw.frame, "importlib")), stack[depth].frame)
