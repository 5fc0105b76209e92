"""The locks in the Python frames of all threads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial

from gdbext.cpython.locking.taken import TakenLock
from gdbext.holders.references import References
from gdbext.locks.seen import SeenLock
from gdbext.remembered import remembered
from gdbext.threads.threads import Threads
from gdbext.waits.python_locks import PythonLocks


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
