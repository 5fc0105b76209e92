"""The locks that a thread has taken in `with` statements whose blocks it is still inside of.

For a plain `_thread.lock` there is no better evidence, since it records no owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.locks import LockReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.with_blocks import WithBlocks
from gdbext.errors import GdbextError
from gdbext.model import PyFrame

#: How many context managers written as generators may be inside one another.
_MAX_NESTING = 8
_TAKEN = ("py-lock", "py-rlock", "py-import")
_RELEASING = ("release", "release_lock", "__exit__")
_GENERATORS = frozenset(("_GeneratorContextManager", "_AsyncGeneratorContextManager"))
_IMPORTLIB = "<frozen importlib"


class TakenLock(NamedTuple):
    """A lock (``PyObject *``) that was taken by a `with` statement.

    `at` is the frame at the line of that statement, `depth` the place of the frame in its stack. `released` tells that
    the frame's function calls ``release`` of something too, or has entered a context manager that does, so it may have
    let go of the lock in between.
    """

    lock: int
    at: PyFrame
    depth: int
    released: bool


class TakenLocks:
    """Finds taken locks in stacks of one runtime."""

    def __init__(self, objects: Objects, frames: FrameReader, withs: WithBlocks, locks: LockReader) -> None:
        self._objects = objects
        self._frames = frames
        self._withs = withs
        self._locks = locks

    def of(self, stack: Sequence[RawFrame]) -> list[TakenLock]:
        """What a thread holds, the last taken first; what cannot be read is left out.

        A thread inside of ``Condition.wait`` has given its lock back.

        :param stack: its frames, innermost first.
        """
        found: list[TakenLock] = []
        given_back: set[int] = set()
        waits: list[RawFrame] = []
        for depth, raw in enumerate(stack):
            try:
                taken = list(self._in_frame(raw, depth))
            except GdbextError:
                continue
            if taken and waits:
                given_back.update(map(self._given_back, waits))
                waits.clear()
            found += [lock._replace(at=_importer(stack, depth)) if lock.at.file.startswith(_IMPORTLIB) else lock
                      for lock in taken if lock.lock not in given_back]
            if raw.frame.function == "wait":
                waits.append(raw)
        return found

    def released_inside(self, stack: Sequence[RawFrame], taken: TakenLock) -> bool:
        """Whether a function that the taker of a lock has called since may have released it.

        It may if it calls ``release`` of something, unless it calls ``acquire`` before: that would have waited.
        """
        for raw in stack[:taken.depth]:
            try:
                names = self._frames.names_used(raw)
                if self._enters_a_release(raw):
                    return True
            except GdbextError:
                return True
            first = min((names[name] for name in _RELEASING if name in names), default=None)
            if first is not None and not names.get("acquire", len(names)) < first:
                return True
        return False

    def releases(self, raw: RawFrame) -> bool:
        """Whether a frame's function calls ``release`` of something, as far as its code can be read."""
        try:
            return not self._frames.names_used(raw).keys().isdisjoint(_RELEASING)
        except GdbextError:
            return True

    def _enters_a_release(self, raw: RawFrame) -> bool:
        """Whether a frame is inside of a `with` block of a generator that calls ``release`` of something."""
        for block in self._withs.of(raw):
            if not _GENERATORS.isdisjoint(self._objects.type_names(block.manager)):
                generator = self._objects.attribute(block.manager, "gen")
                if generator and any(self.releases(inner) for inner in self._frames.generator(generator)):
                    return True
        return False

    def _in_frame(self, raw: RawFrame, depth: int, nesting: int = 0) -> Iterator[TakenLock]:
        released = self.releases(raw) or self._enters_a_release(raw)
        for block in self._withs.of(raw):
            try:
                kinds = self._objects.type_names(block.manager)
                if not _GENERATORS.isdisjoint(kinds):
                    # a function with @contextmanager: what it holds where it has stopped at its `yield`
                    generator = self._objects.attribute(block.manager, "gen")
                    if generator and nesting < _MAX_NESTING:
                        for inner in self._frames.generator(generator):
                            yield from self._in_frame(inner, depth, nesting + 1)
                    continue
                lock = self._lock_of(block.manager, kinds)
            except GdbextError:
                continue
            if lock:
                yield TakenLock(lock, replace(raw.frame, line=block.line), depth, released)
        if raw.frame.function == "_find_and_load" and raw.frame.file.startswith(_IMPORTLIB):
            # since 3.15 it takes the module's lock without a `with`; the lock records its owner
            lock = self._frames.variable(raw, "lock")
            if lock:
                yield TakenLock(lock, raw.frame, depth, True)

    def _lock_of(self, manager: int, kinds: Sequence[str]) -> int:
        """The lock that a context manager has taken, or 0 for a manager of which nothing is known."""
        lock = self._locks.decode(manager)
        if lock is None:
            return 0
        if "Condition" in kinds:
            return lock.guard
        return lock.address if lock.kind in _TAKEN else 0

    def _given_back(self, raw: RawFrame) -> int:
        """The lock that is given back while a frame of ``Condition.wait`` waits; 0 if it is none."""
        try:
            condition = self._frames.variable(raw, "self")
            lock = self._locks.decode(condition) if condition else None
            return lock.guard if lock is not None and lock.kind == "py-condition" else 0
        except GdbextError:
            return 0


def _importer(stack: Sequence[RawFrame], depth: int) -> PyFrame:
    """The frame that imports a module on whose behalf importlib's own has taken a lock."""
    return next((raw.frame for raw in stack[depth:] if not raw.frame.file.startswith(_IMPORTLIB)), stack[depth].frame)
