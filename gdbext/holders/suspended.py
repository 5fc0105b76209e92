"""Finds the locks that suspended coroutines, generators and greenlets hold in their `with` blocks.

Such a frame is in no thread's stack. A task's coroutine can only be resumed by the thread that runs the task's event
loop, and a greenlet by the thread that started it. A generator can only be resumed by a thread that has a reference to
it: if all of its references are in the frames of one thread, by that thread. That thread is then the holder of the
lock.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.generators import GENERATORS, AwaitChain
from gdbext.cpython.greenlets.greenlets import SUSPENDED
from gdbext.cpython.locking.taken import TakenLock
from gdbext.cpython.runtime import InterpreterState
from gdbext.cpython.tasks import PENDING, AsyncioReader
from gdbext.errors import GdbextError, if_unreadable
from gdbext.holders.references import References
from gdbext.locks.python_reader import Reader
from gdbext.locks.seen import SeenLock
from gdbext.model import PyFrame
from gdbext.record import record
from gdbext.threads.python_side import Python
from gdbext.waits.context import Context

#: Most tasks of one interpreter whose coroutines are read. Of more nothing is concluded.
_MAX_TASKS = 20_000
#: Most objects in the frames of all threads that are examined for being generators.
_MAX_OBJECTS = 100_000
#: Most suspended frames that are read in all.
_MAX_FRAMES = 100_000
#: What is suspended.
_What = Literal["task", "generator", "greenlet"]


@record
class _Suspended:
    """Coroutines or generators that run one another, or a greenlet, suspended; `stack` has the frames, innermost first.

    `threads` are the numbers of threads that can resume them, and `only` whether just one thread can.
    """

    reader: Reader
    stack: tuple[RawFrame, ...]
    threads: tuple[int, ...]
    what: _What
    only: bool


@record
class SuspendedTaker:
    """A lock taken in a suspended frame, which is at `at`.

    `threads` can resume the frame, and if `only`, no other thread can. `doubtful`: the lock may be free nevertheless,
    because other code may have released it.
    """

    threads: tuple[int, ...]
    taken: TakenLock
    at: PyFrame
    what: _What
    only: bool
    doubtful: bool


class SuspendedFrames:
    """The locks taken in suspended frames. They are searched only when a lock has no holder in a running frame."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def takers(self, lock: SeenLock) -> Sequence[SuspendedTaker]:
        """The suspended frames inside `with` blocks of a Python lock."""
        if lock.python is None:
            return ()
        found = []
        for suspended, taken in self._inside.get(lock.python.address, ()):
            # what the threads have done since may have released the lock
            stacks = [each for number in suspended.threads for each in self._context.python_locks.stacks(number)]
            later = [raw for reader, stack in stacks if reader is suspended.reader for raw in stack]
            again = next((each for each in suspended.reader.taken.of(suspended.stack, later)
                          if each.lock == taken.lock and each.call is None), None)
            if again is not None:
                doubtful = again.released or self._released_by_others(suspended, lock)
                found.append(SuspendedTaker(suspended.threads, again, _place(suspended.stack, again.at),
                                            suspended.what, suspended.only, doubtful))
        return found

    def certain(self, number: int, lock: SeenLock) -> SuspendedTaker | None:
        """The suspended frame that only this thread can resume, and that certainly holds the lock; or None."""
        return next((taker for taker in self.takers(lock)
                     if taker.only and not taker.doubtful and taker.threads == (number,)), None)

    def _released_by_others(self, suspended: _Suspended, lock: SeenLock) -> bool:
        known = References([lock])
        return any(other.reader.taken.releases(raw) and known.find(other.reader, raw)
                   for other in self._all if other is not suspended for raw in other.stack)

    @cached_property
    def _inside(self) -> Mapping[int, Sequence[tuple[_Suspended, TakenLock]]]:
        """By lock (``PyObject *``): the suspended frames in `with` blocks of it."""
        found: dict[int, list[tuple[_Suspended, TakenLock]]] = {}
        for suspended in self._all:
            # what a suspended function has acquired by a call, others may release
            blocks = [each for each in suspended.reader.taken.of(suspended.stack) if each.call is None]
            for address, taken in {each.lock: each for each in blocks}.items():
                found.setdefault(address, []).append((suspended, taken))
        return found

    @cached_property
    def _all(self) -> Sequence[_Suspended]:
        found: list[_Suspended] = []
        count = 0
        done: set[int] = set()
        for python in self._context.python.pythons:
            for interpreter in python.interpreters:
                for suspended, generators in self._of(python, interpreter):
                    if done.isdisjoint(generators):
                        done.update(generators)
                        found.append(suspended)
                        count += len(suspended.stack)
                    if count > _MAX_FRAMES:
                        return ()
        return found

    def _of(self, python: Python, interpreter: InterpreterState) -> Iterator[tuple[_Suspended, Sequence[int]]]:
        context = self._context
        yield from self._of_greenlets(python, interpreter)
        try:
            asyncio = context.python.asyncio(python, interpreter.address)
            tasks = list(self._of_tasks(python, asyncio, interpreter)) if asyncio is not None else []
            if asyncio is None:  # a generator is read in the same way
                asyncio = AsyncioReader(context.memory, python.runtime.layouts, python.objects, python.frames,
                                        interpreter.address)
        except GdbextError:
            return  # the tasks themselves are reported where they are shown
        yield from tasks
        if interpreter is python.interpreters[0]:  # once: generators are in the frames of all interpreters
            yield from self._of_generators(python, asyncio)

    # -- tasks of asyncio ------------------------------------------------------------------------------------

    def _of_tasks(self, python: Python, asyncio: AsyncioReader,
                  interpreter: InterpreterState) -> Iterator[tuple[_Suspended, Sequence[int]]]:
        numbers, running = self._loops(asyncio, interpreter)
        addresses = asyncio.tasks(tuple([tstate.address for tstate in interpreter.threads]))[0]
        if len(addresses) > _MAX_TASKS:
            return
        for address in addresses:
            try:
                task = asyncio.task(address)
                number = numbers.get(task.loop)
                if task.state != PENDING or not task.coroutine or number is None or address in running:
                    continue
                chain = asyncio.generators.await_chain(task.coroutine)
                if self._is_suspended(asyncio, chain):
                    yield self._suspended(python, chain, [number], "task", True), chain.generators
            except GdbextError:
                continue

    def _loops(self, asyncio: AsyncioReader, interpreter: InterpreterState) -> tuple[dict[int, int], set[int]]:
        """The thread of each loop that runs, and the tasks that run now."""
        numbers: dict[int, int] = {}
        running = set(asyncio.current_tasks())
        for tstate in interpreter.threads:
            loop, task = asyncio.running(tstate.address)
            number = self._context.python.number_of_tstate.get(tstate.address)
            if loop is not None and number is not None:
                numbers[loop] = number
            if task is not None:
                running.add(task)
        return numbers, running

    # -- generators in the frames of threads -----------------------------------------------------------------

    def _of_generators(self, python: Python, asyncio: AsyncioReader) -> Iterator[tuple[_Suspended, Sequence[int]]]:
        # by object: the threads whose frames have it, and how many references they certainly have
        threads: dict[int, set[int]] = {}
        owned: dict[int, int] = {}
        for seen in self._context.threads:
            for reader, stack in self._context.python_locks.stacks(seen.number):
                if reader is not self._context.python_locks.reader(python):
                    continue
                for raw in stack:
                    for address in self._objects_in(reader, raw):
                        threads.setdefault(address, set()).add(seen.number)
                    for address in self._owned(reader, raw):
                        owned[address] = owned.get(address, 0) + 1
            if len(threads) > _MAX_OBJECTS:
                return
        for address, numbers in threads.items():
            try:
                if python.objects.type_name(address) not in GENERATORS or not asyncio.generators.is_suspended(address):
                    continue
                chain = asyncio.generators.await_chain(address)
                if not self._is_suspended(asyncio, chain):
                    continue
                # the delegating generator has the only reference to the next one
                only = len(numbers) == 1 and [python.objects.references(each) for each in chain.generators] == [
                    owned.get(address, 0), *itertools.repeat(1, len(chain.generators) - 1)]
                yield (self._suspended(python, chain, sorted(numbers), "generator", only),
                       chain.generators)
            except GdbextError:
                continue

    @if_unreadable(())
    def _objects_in(self, reader: Reader, raw: RawFrame) -> Collection[int]:
        return {value for value in (*reader.frames.variable_values(raw), *reader.frames.stack_values(raw)) if value}

    @if_unreadable(())
    def _owned(self, reader: Reader, raw: RawFrame) -> Collection[int]:
        return reader.frames.owned_values(raw)

    # -- greenlets -------------------------------------------------------------------------------------------

    def _of_greenlets(self, python: Python,
                      interpreter: InterpreterState) -> Iterator[tuple[_Suspended, Sequence[int]]]:
        side, locks = self._context.python, self._context.python_locks
        reader = side.greenlets(python, interpreter)
        try:
            greenlets = reader.greenlets
        except GdbextError:
            return  # reported where they are shown
        for greenlet in greenlets:
            number = side.number_of_tstate.get(greenlet.tstate or 0)
            if greenlet.state == SUSPENDED and number is not None:
                try:
                    stack = tuple(reader.stack(greenlet))
                except GdbextError:
                    continue
                yield _Suspended(locks.reader(python), stack, (number,), "greenlet", True), [
                    greenlet.address]

    # -- coroutines and generators ---------------------------------------------------------------------------

    def _is_suspended(self, asyncio: AsyncioReader, chain: AwaitChain) -> bool:
        return chain.problem is None and bool(chain.frames) and all(
            map(asyncio.generators.is_suspended, chain.generators))

    def _suspended(self, python: Python, chain: AwaitChain, numbers: Sequence[int], what: _What,
                   only: bool) -> _Suspended:
        stack = tuple([python.frames.resumed(raw) for raw in reversed(chain.frames)])
        return _Suspended(self._context.python_locks.reader(python), stack, tuple(numbers), what, only)


def _place(stack: Sequence[RawFrame], taken_at: PyFrame) -> PyFrame:
    """Where the function that has taken a lock is suspended; the innermost frame if it is not in the stack."""
    where = taken_at.qualified_name, taken_at.file
    return next((raw.frame for raw in stack if (raw.frame.qualified_name, raw.frame.file) == where), stack[0].frame)
