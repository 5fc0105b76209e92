"""Tasks of asyncio and trio, their event loops, and greenlets: what each waits for."""

from __future__ import annotations

from typing import Literal

from gdbext.model.evidence import Evidence
from gdbext.model.frames import PyFrame
from gdbext.model.reasons import Reason
from gdbext.record import record

TaskStatus = Literal["running", "pending", "done", "cancelled"]
GreenletStatus = Literal["current", "suspended", "dead", "not started"]


def _object(kind: str | None, address: int | None, name: str | None) -> str | None:
    """An object that is waited for, in the words of a report; None if its kind is not known."""
    if kind is None:
        return None
    place = f" {address:#x}" if address is not None else ""
    return kind + place + (f" {name}" if name else "")


@record
class Awaited:
    """What a task of asyncio or trio waits for.

    `tasks` are the addresses of the tasks whose end it waits for: all of them, or any, depending on `kind`. `others`
    counts other futures. `kind` says what waits for them, or what else is waited for
    (``asyncio.gather``, ``asyncio.Lock``, ``Future``), with its address and a name that the program has for it;
    `holders` are tasks in an ``async with`` block of that lock. `timed` is true when the wait ends by itself.
    """

    tasks: tuple[int, ...] = ()
    others: int = 0
    kind: str | None = None
    address: int | None = None
    name: str | None = None
    holders: tuple[int, ...] = ()
    timed: bool = False

    @property
    def what(self) -> str | None:
        """The object that is awaited besides tasks, or the way they are awaited (``asyncio.Lock 0x7f.. lock``)."""
        return _object(self.kind, self.address, self.name)


@record
class Task:
    """A task of asyncio or trio.

    `thread` is the one that its loop runs in, None if asyncio records none. `stack` has the coroutines that await
    one another, innermost first; of a task that runs, with the functions that they call.
    """

    address: int
    name: str | None
    loop: int
    thread: int | None
    state: TaskStatus
    stack: tuple[PyFrame, ...] = ()
    awaits: Awaited = Awaited()
    awaited_by: tuple[int, ...] = ()


@record
class EventLoop:
    """An event loop: the thread that it runs in, None if asyncio records none, and the name of its class, or ``trio``.

    `watched` is how many descriptors it watches besides its own, by which it is woken; None if that is not known.
    """

    address: int
    kind: str
    thread: int | None
    watched: int | None = None


@record
class GreenletWait:
    """What a suspended greenlet waits for.

    `greenlets` are the addresses of those whose end it waits for; `others` counts other objects that may wake it.
    `kind` is the class of what else it waits for (``gevent.lock.RLock``), with its address and a name that the program
    has for it; or what its event loop watches for it (``io``, ``timer``, ``child``, ``signal``); ``ready`` if
    it is about to run; None if that is not known. `locked`: it waits for a lock that is taken. `holders` are the
    greenlets that have the lock, by `evidence` and `why`; `taken_at` is the frame that took it. `timed` is true when
    the wait ends by itself.
    """

    kind: str | None = None
    address: int | None = None
    name: str | None = None
    greenlets: tuple[int, ...] = ()
    others: int = 0
    locked: bool = False
    holders: tuple[int, ...] = ()
    evidence: Evidence | None = None
    why: Reason | None = None
    taken_at: PyFrame | None = None
    timed: bool = False

    @property
    def what(self) -> str | None:
        """The object that is waited for, or what the event loop watches (``gevent.lock.RLock 0x7f.. lock``)."""
        return _object(self.kind, self.address, self.name)


@record
class Greenlet:
    """A greenlet of the package `greenlet`; `kind` is its class.

    `thread` is the only one that can run it; None if that has ended, or if the greenlet has not started. `is_main`: it
    is the thread's own greenlet, which exists from the start. `stack` has the frames of a suspended greenlet, innermost
    first. The stack of the current one is its thread's. `waits` is None unless it is suspended and has a thread.
    """

    address: int
    kind: str
    thread: int | None
    state: GreenletStatus
    is_main: bool = False
    stack: tuple[PyFrame, ...] = ()
    waits: GreenletWait | None = None
