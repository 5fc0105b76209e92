"""What wakes the greenlets of gevent, and the states of its locks.

A greenlet of gevent waits by switching to its hub, after it has left a way to be woken: the bound method ``switch`` of
itself, or a ``Waiter``. Semaphores, events, results and greenlets keep these in a list (``_links``), queues in deques.
The loop has watchers and callbacks, which keep a function and its arguments.

Sources: gevent 26.5.0 src/gevent/_abstract_linkable.py (``__wait_to_be_notified``), _semaphore.py
(``__acquire_using_two_hubs``), _waiter.py, greenlet.py (``join``), queue.py, timeout.py, lock.py, thread.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from gdbext.cpython.gevent_objects import GeventObjects, Role
from gdbext.cpython.locks import LockReader, PyLock
from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError, UnknownLayout, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.record import record

_SEMAPHORES = ("gevent._gevent_c_semaphore.Semaphore", "gevent._semaphore.Semaphore")
_BOUNDED = ("gevent._gevent_c_semaphore.BoundedSemaphore", "gevent._semaphore.BoundedSemaphore")
#: What watchers are for: other threads, and the time.
ASYNC: Final = ("async_", "async")
TIMER: Final = "timer"


@record
class Waker:
    """An object (``PyObject *``) that wakes a greenlet. `watches` says what a watcher is for: ``io``, ``timer``."""

    role: Role
    address: int
    watches: str | None = None


@record
class Semaphore:
    """A semaphore of gevent. `initial` is its first value, None if that is not recorded.

    `notifies`: it is about to wake greenlets.
    """

    counter: int
    initial: int | None
    notifies: bool

    @property
    def is_lock(self) -> bool:
        """Whether only one greenlet can have it."""
        return self.initial == 1


@record
class RLock:
    """A ``gevent.lock.RLock``: the semaphore in it, and the greenlet that has it, or 0 (``PyObject *``)."""

    block: int
    owner: int
    count: int


class Gevent:
    """gevent in one interpreter.

    :param found: its objects in the collector's lists, by address.
    :param greenlets: all greenlets, also those of other classes (``PyGreenlet *``).
    """

    def __init__(self, memory: Memory, objects: Objects, found: Mapping[int, Role], greenlets: Iterable[int]) -> None:
        self.objects = GeventObjects(memory, objects)
        self._objects = objects
        self._found = found
        self._greenlets = frozenset(greenlets)

    @property
    def is_used(self) -> bool:
        """Whether there are any objects of gevent."""
        return bool(self._found)

    @cached_property
    def wakers(self) -> Mapping[int, Sequence[Waker]]:
        """By greenlet: all objects that wake it.

        An object that cannot be read is left out: a greenlet that only this would wake has no known wait then.

        :raises UnknownLayout: this release is not decoded.
        """
        # by greenlet, by waiter, and by watcher: what refers to it in order to wake it
        found: dict[int, list[Waker]] = {}
        inside: dict[int, list[int]] = {}
        for address, role in self._found.items():
            try:
                if role == "waiter":
                    greenlet = self.objects.pointer(address, "greenlet")
                    if greenlet:
                        inside.setdefault(greenlet, []).append(address)
                elif role != "rlock":
                    waker = Waker(role, address, self._watches(address) if role == "watcher" else None)
                    for target in dict.fromkeys(self._targets(address, role)):
                        found.setdefault(target, []).append(waker)
            except UnknownLayout:
                raise
            except GdbextError:
                continue
        made: dict[int, list[Waker]] = {}
        for greenlet in self._greenlets:
            wakers = [*found.get(greenlet, ()), *(waker for waiter in inside.get(greenlet, ())
                                                   for waker in found.get(waiter, ()))]
            # a greenlet that waits for a semaphore of another hub is woken by a watcher, which the semaphore wakes
            for waker in list(wakers):
                if waker.watches in ASYNC:
                    wakers += [each for each in found.get(waker.address, ()) if each.role == "linkable"]
            if wakers:
                made[greenlet] = list(dict.fromkeys(wakers))
        return made

    def _watches(self, address: int) -> str:
        return self._objects.type_name(address).rpartition(".")[2]

    def _targets(self, address: int, role: Role) -> Iterable[int]:
        """What an object wakes: greenlets, waiters, watchers."""
        if role == "queue":
            for name in ("getters", "putters"):
                for item in self.objects.items(self.objects.pointer(address, name)):
                    yield item
                    if self._objects.type_name(item) == "tuple":  # a channel has tuples of an item and a waiter
                        yield from self.objects.items(item)
        elif role in ("linkable", "greenlet"):
            for link in self.objects.items(self.objects.pointer(address, "_links")):
                yield self._owner(link)
        else:
            callback = "_callback" if role == "watcher" else "callback"
            yield self._owner(self.objects.pointer(address, callback))
            # it may also call a function that kills the greenlet
            yield from self.objects.items(self._arguments(address))

    def _arguments(self, address: int) -> int:
        return self.objects.pointer(address, "args") or self.objects.pointer(address, "_args")

    def _owner(self, function: int) -> int:
        """The object that a bound method is bound to; the object itself if it is not a bound method."""
        return self._objects.bound_method(function)[0] or function if function else 0

    # -- locks -----------------------------------------------------------------------------------------------

    @cached_property
    def rlock_of(self) -> Mapping[int, int]:
        """By semaphore: the ``gevent.lock.RLock`` that it is a part of (``PyObject *``)."""
        found = {}
        for address, role in self._found.items():
            if role == "rlock":
                state = self.rlock(address)
                if state is not None:
                    found[state.block] = address
        return found

    @if_unreadable(None)
    def semaphore(self, address: int) -> Semaphore | None:
        """The state of a semaphore; None for an object of another kind, or one that cannot be read."""
        if not self.objects.is_a(address, *_SEMAPHORES):
            return None
        initial = self.objects.number(address, "_initial_value") if self.objects.is_a(address, *_BOUNDED) else None
        counter, links = self.objects.number(address, "counter"), self.objects.pointer(address, "_links")
        if counter < 0 or self._objects.type_name(links) != "list" or (initial is not None and counter > initial):
            return None  # damaged, or not what it seems to be
        return Semaphore(counter, initial, bool(self.objects.pointer(address, "_notifier")))

    @if_unreadable(None)
    def rlock(self, address: int) -> RLock | None:
        """The state of a ``gevent.lock.RLock``; None for an object of another kind, or one that cannot be read."""
        if self.objects.role(self._objects.type_address(address)) != "rlock":
            return None
        block, owner = self.objects.pointer(address, "_block"), self.objects.pointer(address, "_owner")
        if not block or self.semaphore(block) is None:
            return None
        return RLock(block, owner, self.objects.number(address, "_count"))


class GeventLocks(LockReader):
    """Decodes the locks of gevent as well as those of Python, for code that finds taken locks."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects, gevent: Gevent) -> None:
        super().__init__(memory, layouts, objects)
        self._gevent = gevent

    def decode(self, address: int) -> PyLock | None:
        """As `LockReader.decode`. A semaphore that several greenlets may have is a ``py-semaphore``."""
        rlock = self._gevent.rlock(address)
        if rlock is not None:
            return PyLock("py-rlock", address, "gevent.lock.RLock", "locked" if rlock.count else "free",
                          locked=bool(rlock.count), guard=rlock.block)
        semaphore = self._gevent.semaphore(address)
        if semaphore is not None:
            return PyLock("py-lock" if semaphore.is_lock else "py-semaphore", address,
                          self._gevent.objects.class_name(address), "free" if semaphore.counter else "locked",
                          locked=not semaphore.counter)
        return super().decode(address)
