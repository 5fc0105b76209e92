"""What wakes the greenlets of gevent and eventlet, and the states of their locks.

A greenlet of gevent waits by switching to its hub, after it has left a way to be woken: the bound method ``switch`` of
itself, or a ``Waiter``. Semaphores, events, results and greenlets keep these in a list (``_links``), queues in deques.
The loop has watchers and callbacks, which keep a function and its arguments.

eventlet does the same. Semaphores and events keep the greenlets (``_waiters``); the end of a greenlet is an event that
it has. Queues keep sets of ``Waiter``. The hub has lists of the calls that it will make, and a dict of descriptors.

Sources: gevent 26.5.0 src/gevent/_abstract_linkable.py (``__wait_to_be_notified``), _semaphore.py
(``__acquire_using_two_hubs``), _waiter.py, greenlet.py (``join``), queue.py, timeout.py, lock.py, thread.py; eventlet
0.33.3 to 0.41.3 eventlet/semaphore.py, lock.py, event.py, queue.py, greenthread.py, timeout.py, hubs/__init__.py
(``trampoline``), hubs/hub.py, hubs/timer.py, green/select.py, green/thread.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from gdbext.cpython.greenlets.libraries import GreenObjects, Role
from gdbext.cpython.locking.locks import LockReader, PyLock
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, GdbextError, UnknownLayout, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.record import record

_SEMAPHORES = ("gevent._gevent_c_semaphore.Semaphore", "gevent._semaphore.Semaphore", "eventlet.semaphore.Semaphore")
#: The member with the first value, of the classes that record it.
_INITIAL = {"gevent._gevent_c_semaphore.BoundedSemaphore": "_initial_value",
            "gevent._semaphore.BoundedSemaphore": "_initial_value",
            "eventlet.semaphore.BoundedSemaphore": "original_counter"}
#: It is made with the value 1, and ``release`` raises an exception if it is free.
_LOCK = "eventlet.lock.Lock"
#: Members that contain what is woken, and the types that they have in a semaphore.
_WAITERS = ("_links", "_waiters")
_TYPES_OF_WAITERS = ("list", "collections.deque")
#: Events that are a part of another object: the end of a greenlet, and the end of the tasks of a queue.
_EVENTS = ("_exit_event", "_cond")
#: The classes of eventlet's hubs for Linux; a hub of another library schedules calls elsewhere.
_HUBS = tuple([f"eventlet.hubs.{name}.Hub" for name in ("epolls", "poll", "selects", "asyncio")])
#: The method of an event that wakes a greenlet, which is its last argument.
_SEND = "_do_send"
#: How many tuples and functions inside one another are searched for greenlets that a call of a hub may wake.
_DEEPEST = 3
#: What watchers are for: other threads, and the time.
ASYNC: Final = ("async_", "async")
TIMER: Final = "timer"
IO: Final = "io"


@record
class Waker:
    """An object (``PyObject *``) that wakes a greenlet. `watches` says what a watcher is for: ``io``, ``timer``."""

    role: Role
    address: int
    watches: str | None = None


@record
class Semaphore:
    """A semaphore. `initial` is its first value, None if that is not recorded.

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


class GreenWaits:
    """gevent and eventlet in one interpreter.

    :param found: their objects in the collector's lists, by address.
    :param greenlets: all greenlets, also those of other classes (``PyGreenlet *``).
    """

    def __init__(self, memory: Memory, objects: Objects, found: Mapping[int, Role], greenlets: Iterable[int]) -> None:
        self.objects = GreenObjects(memory, objects)
        self._objects = objects
        self._found = found
        self._greenlets = frozenset(greenlets)

    @property
    def is_used(self) -> bool:
        """Whether there are any objects of these libraries."""
        return bool(self._found)

    @cached_property
    def wakers(self) -> Mapping[int, Sequence[Waker]]:
        """By greenlet: all objects that wake it.

        An object that cannot be read is left out: a greenlet that only this would wake has no known wait then.

        :raises UnknownLayout: this release, or this hub, is not decoded.
        :raises GdbextError: a hub of eventlet cannot be read.
        """
        found, inside = self._scan
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

    def is_scheduled_with(self, address: int) -> bool:
        """Whether the event loop will make a call with an object (``PyObject *``); see `wakers`."""
        return any(waker.role in ("callback", "watcher") for waker in self._scan[0].get(address, ()))

    @cached_property
    def _scan(self) -> tuple[Mapping[int, Sequence[Waker]], Mapping[int, Sequence[int]]]:
        """By greenlet, by waiter, and by watcher: what refers to it in order to wake it. By greenlet: its waiters."""
        found: dict[int, list[Waker]] = {}
        inside: dict[int, list[int]] = {}
        for address, role in self._found.items():
            try:
                if role == "waiter":
                    greenlet = self.objects.pointer(address, "greenlet")
                    if greenlet:
                        inside.setdefault(greenlet, []).append(address)
                elif role not in ("rlock", "hub") and address not in self._events:
                    waker = Waker(role, address, self._watches(address) if role == "watcher" else None)
                    for target in dict.fromkeys(self._targets(address, role)):
                        found.setdefault(target, []).append(waker)
            except UnknownLayout:
                raise
            except GdbextError:
                continue
        for waker, targets in (each for hub in self._hubs for each in self._scheduled(hub)):
            for target in dict.fromkeys(targets):
                found.setdefault(target, []).append(waker)
        return found, inside

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
        if role in ("linkable", "greenlet", "queue"):
            for owner in (*self._events_of(address), *(() if role == "queue" else (address,))):
                for name in _WAITERS:
                    for link in self.objects.items(self.objects.pointer(owner, name)):
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

    # -- eventlet --------------------------------------------------------------------------------------------

    @cached_property
    def _hubs(self) -> Sequence[int]:
        return [address for address, role in self._found.items() if role == "hub"]

    @cached_property
    @if_unreadable({})
    def hubs(self) -> Mapping[int, str]:
        """By greenlet (``PyGreenlet *``): the class of the hub of eventlet that it runs."""
        return {self.objects.pointer(hub, "greenlet"): self.objects.class_name(hub) for hub in self._hubs}

    @cached_property
    def _events(self) -> frozenset[int]:
        """The events that are a part of another object."""
        return frozenset(event for address, role in self._found.items() if role in ("greenlet", "queue")
                         for event in self._events_of(address))

    @if_unreadable(())
    def _events_of(self, address: int) -> tuple[int, ...]:
        found = [self.objects.pointer(address, name) for name in _EVENTS]
        return tuple([each for each in found if self._found.get(each) == "linkable"])

    def _scheduled(self, hub: int) -> Iterator[tuple[Waker, Iterable[int]]]:
        """What a hub of eventlet will call, and what each call may wake."""
        if not self.objects.is_a(hub, *_HUBS):
            raise UnknownLayout(f"{self.objects.class_name(hub)} is not decoded")
        for name in ("timers", "next_timers"):
            for entry in self.objects.items(self._part(hub, name, "list")):
                for timer in self._objects.tuple_items(entry)[1:]:
                    if not self._is_set(timer, "called"):  # nor cancelled
                        call = self._part(timer, "tpl", "tuple")
                        yield self._timer(timer), self._called(call)
                        # any other function may wake a greenlet that it has access to
                        yield Waker("watcher", timer, TIMER), self._mentioned(call)
        for name in ("listeners", "secondaries"):
            for _, descriptors in self._objects.dict_items(self._part(hub, name, "dict")):
                for _, found in self._objects.dict_items(descriptors):
                    for listener in self.objects.items(found) if name == "secondaries" else (found,):
                        yield self._listener(listener)
        for listener in self.objects.items(self._part(hub, "closed", "list")):
            yield self._listener(listener)

    def _timer(self, address: int) -> Waker:
        seconds = self._part(address, "seconds")
        # a call after no time is for a greenlet that has what it waited for; any other ends a sleep or a timeout
        is_due = self._objects.type_name(seconds) == "int" and not self._objects.integer(seconds)
        return Waker("callback", address) if is_due else Waker("watcher", address, TIMER)

    def _called(self, call: int) -> Iterator[int]:
        """The greenlet whose method is called, or to which an event sends its value."""
        callback, arguments, *_ = (*self._objects.tuple_items(call), 0, 0)
        owner, name = self._objects.bound_method(callback)
        yield owner
        if name == _SEND:
            yield from self.objects.items(arguments)

    def _listener(self, address: int) -> tuple[Waker, Iterable[int]]:
        # the descriptor of a spent one was closed: its greenlet gets an exception
        waker = Waker("callback", address) if self._is_set(address, "spent") else Waker("watcher", address, IO)
        return waker, (each for name in ("cb", "tb") for each in self._mentioned(self._part(address, name)))

    def _part(self, address: int, member: str, kind: str | None = None) -> int:
        value = self._objects.attribute(address, member) or 0
        if not value or (kind is not None and self._objects.type_name(value) != kind):
            raise CorruptStructure(address, f"a part of a hub of eventlet without {member}")
        return value

    def _is_set(self, address: int, member: str) -> bool:
        return bool(self._objects.integer(self._part(address, member, "bool")))

    def _mentioned(self, value: int, depth: int = 0) -> Iterator[int]:
        """The object of a method, and what is in tuples and in free variables of functions, also of arguments."""
        yield self._owner(value)
        kind = self._objects.type_name(value)
        if depth < _DEEPEST and kind in ("tuple", "function"):
            closure = value if kind == "tuple" else self._objects.read_member("PyFunctionObject", value, "func_closure")
            for item in self.objects.items(closure):
                contents = item if kind == "tuple" else self._objects.read_member("PyCellObject", item, "ob_ref")
                if contents:
                    yield from self._mentioned(contents, depth + 1)

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
        initial = 1 if self.objects.is_a(address, _LOCK) else next((
            self.objects.number(address, member) for kind, member in _INITIAL.items()
            if self.objects.is_a(address, kind)), None)
        counter = self.objects.number(address, "counter")
        waiters = next(filter(None, (self.objects.pointer(address, name) for name in _WAITERS)), 0)
        if counter < 0 or not waiters or self._objects.type_name(waiters) not in _TYPES_OF_WAITERS or (
                initial is not None and counter > initial):
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


class GreenLocks(LockReader):
    """Decodes the locks of gevent and eventlet as well as those of Python, for code that finds taken locks."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects, green: GreenWaits) -> None:
        super().__init__(memory, layouts, objects)
        self._green = green

    def decode(self, address: int) -> PyLock | None:
        """As `LockReader.decode`. A semaphore that several greenlets may have is a ``py-semaphore``."""
        rlock = self._green.rlock(address)
        if rlock is not None:
            return PyLock("py-rlock", address, "gevent.lock.RLock", "locked" if rlock.count else "free",
                          locked=bool(rlock.count), guard=rlock.block)
        semaphore = self._green.semaphore(address)
        if semaphore is not None:
            return PyLock("py-lock" if semaphore.is_lock else "py-semaphore", address,
                          self._green.objects.class_name(address), "free" if semaphore.counter else "locked",
                          locked=not semaphore.counter)
        return super().decode(address)
