"""What a task of asyncio waits for: another task, futures, an object of asyncio, and the program's name for it.

A task records the future that it waits for. What that future is for is known from the future itself (a task, a
``gather``) or from the function of asyncio that awaits it: ``Lock.acquire`` of a lock, ``wait_for`` of a task. A lock
of anyio records the task that has it. Source: anyio 4.13 src/anyio/_backends/_asyncio.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gdbext.cpython.code.with_blocks import WithBlocks
from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.cpython.tasks import MAX_TASKS, AsyncioReader, TaskState
from gdbext.cpython.values import ValueReader
from gdbext.errors import CorruptStructure, GdbextError
from gdbext.model import Awaited
from gdbext.model.frames import library_of
from gdbext.model.reasons import Reason, because_of
from gdbext.model.standard_library import is_in, module_of, role_of
from gdbext.record import record
from gdbext.tasks.names import AwaitedNames

#: Classes of asyncio whose methods wait for the object itself.
_CLASSES = ("Lock", "Event", "Condition", "Semaphore", "BoundedSemaphore", "Barrier", "Queue", "PriorityQueue",
            "LifoQueue", "StreamReader", "StreamWriter", "Process", "Server", "TaskGroup")
LOCK, CONDITION = "asyncio.Lock", "asyncio.Condition"
#: Classes of anyio whose methods wait for a future of their own.
_OF_ANYIO = frozenset(("Lock", "Semaphore"))
_ANYIO, _ANYIO_LOCK = "anyio", "anyio.Lock"
_GATHERING, _TIMEOUT = "_GatheringFuture", "Timeout"
#: How many futures within futures are looked through.
_MAX_NESTING = 20
#: How many frames of coroutines and awaited futures are read in all: no program has more.
_MAX_READ = 2_000_000


@record
class _Site:
    """What a function of asyncio that stands in an await waits for: an object, or futures."""

    kind: str
    address: int | None = None
    futures: tuple[int, ...] | None = None
    timed: bool = False


@dataclass
class Seen:
    """A task on the way to the report; `frames` are outermost first."""

    state: TaskState
    frames: tuple[RawFrame, ...]
    running: bool
    awaits: Awaited = Awaited()


class Awaits:
    """Finds what the tasks of one interpreter wait for.

    :param seen: the tasks that are known, by their addresses; the caller adds to them.
    :param cannot_read: notes that the callbacks of a future (``PyObject *``) cannot be read, and why.
    """

    def __init__(self, objects: Objects, values: ValueReader, frames: FrameReader, withs: WithBlocks,
                 reader: AsyncioReader, seen: Mapping[int, Seen], cannot_read: Callable[[int, Reason], None]) -> None:
        self._objects = objects
        self._values = values
        self._frames = frames
        self._withs = withs
        self._reader = reader
        self._seen = seen
        self._cannot_read = cannot_read
        self._read_count = 0
        self._shielded: dict[int, list[int]] | None = None
        self._names = AwaitedNames(objects, frames)

    def spend(self, count: int) -> None:
        """Count frames and futures that were read.

        :raises CorruptStructure: there are too many. Each walk is bounded, but in damaged memory all tasks may share
            the longest one.
        """
        self._read_count += count
        if self._read_count > _MAX_READ:
            raise CorruptStructure(0, f"more than {_MAX_READ} coroutines and futures")

    def of(self, seen: Seen) -> Awaited:
        """What a task waits for.

        :raises GdbextError: it cannot be read.
        """
        waiter = seen.state.waiter
        if seen.running or waiter is None:
            return Awaited()
        site = self._site(seen, waiter)
        if site is None:
            return self._direct(seen, waiter)
        tasks, others = self._tasks_of(site.futures or ())
        timed = site.timed or bool(tasks) and self.has_timeout(seen)
        name = self._names.find(seen.frames, site.address, _is_own) if site.address is not None else None
        holders = self._owner(site.address) if site.kind == _ANYIO_LOCK and site.address is not None else ()
        return Awaited(tasks, others, site.kind, site.address, name, holders,
                       timed or bool(holders) and self.has_timeout(seen))

    def _owner(self, lock: int) -> tuple[int, ...]:
        """The task that a lock of anyio records, or none."""
        owner = dict(self._values.attributes(lock)).get("_owner_task")
        return (owner,) if owner and self._reader.is_task(owner) else ()

    def _direct(self, seen: Seen, waiter: int) -> Awaited:
        """What is awaited without a function of asyncio between."""
        names = self._objects.type_names(waiter)
        tasks, others = self._tasks_of((waiter,))
        if _GATHERING in names:
            kind: str | None = "asyncio.gather"
        elif tasks:
            kind = None if waiter in tasks else "asyncio.shield"
        else:
            source = self._chained(waiter)
            kind = "concurrent.futures.Future" if source else names[0].rpartition(".")[2]
            address = source or waiter
            return Awaited((), 1, kind, address, self._names.find(seen.frames, address, _is_own))
        return Awaited(tasks, others, kind, timed=bool(tasks) and self.has_timeout(seen))

    def _tasks_of(self, futures: Iterable[int]) -> tuple[tuple[int, ...], int]:
        """The tasks that are awaited with futures, and how many other futures are. Finished ones do not count."""
        tasks: dict[int, None] = {}
        others = 0
        looked: set[int] = set()
        level = list(futures)
        for _ in range(_MAX_NESTING):
            self.spend(len(level))
            following: list[int] = []
            for future in level:
                if future in looked:
                    continue
                looked.add(future)
                if self._reader.is_task(future):
                    # the only one is reported even if it has finished: its waiting task has not been woken yet
                    if len(level) == 1 or self._reader.is_pending(future):
                        tasks[future] = None
                elif _GATHERING in self._objects.type_names(future):
                    children = self._objects.attribute(future, "_children")
                    following += self._objects.list_start(children, MAX_TASKS) if children else ()
                elif self._reader.is_pending(future):
                    behind = self._shields().get(future, ())
                    tasks.update(dict.fromkeys(behind))
                    others += not behind
            level = following
            if not level:
                break
        return tuple(tasks), others

    def _site(self, seen: Seen, waiter: int) -> _Site | None:
        """The function of asyncio that awaits the future of a task, or None if the program's own code does."""
        found: _Site | None = None
        for raw in reversed(seen.frames):
            if not is_in(raw.frame, "asyncio"):
                break
            made = self._site_of(raw, waiter)
            if made is None:
                continue
            # Queue.join waits for an event of its own, a barrier for a condition; Condition.wait takes its lock again
            if found is None or (found.address is not None and made.address is not None and found.kind != LOCK):
                found = made
        return found or self._site_of_anyio(seen.frames[-1] if seen.frames else None)

    def _site_of_anyio(self, raw: RawFrame | None) -> _Site | None:
        """A lock or semaphore of anyio whose method awaits the future."""
        owner = self._variable(raw, "self") if raw is not None and library_of(raw.frame) == _ANYIO else None
        kind = self._objects.type_name(owner).rpartition(".")[2] if owner is not None else None
        return _Site(f"{_ANYIO}.{kind}", owner) if kind in _OF_ANYIO else None

    def _site_of(self, raw: RawFrame, waiter: int) -> _Site | None:
        if is_in(raw.frame, "asyncio.tasks"):
            role = role_of(raw.frame)
            if role == "sleeps":
                return _Site("asyncio.sleep")
            if role in ("waits-for-one-future", "cancels-and-waits"):
                future = self._variable(raw, "fut")
                # up to 3.11 a timeout makes it wait for a future of its own
                timed = role == "waits-for-one-future" and future is not None and future != waiter
                if future is not None and self._is_future(future):
                    return _Site("asyncio.wait_for", futures=(future,), timed=timed)
            if role == "waits-for-futures":
                futures = self._variable(raw, "fs")
                if futures is not None and self._objects.type_name(futures) in ("set", "frozenset"):
                    return _Site("asyncio.wait", futures=tuple(self._objects.set_items(futures)))
            return None
        owner = self._variable(raw, "self")
        names = self._objects.type_names(owner) if owner is not None else ()
        kind = next((name for name in names if name in _CLASSES), None)
        if kind == "TaskGroup" and owner is not None:
            group = self._objects.attribute(owner, "_tasks")
            return _Site("asyncio.TaskGroup", futures=tuple(self._objects.set_items(group)) if group else ())
        return _Site(f"asyncio.{kind}", owner) if kind is not None else None

    def _is_future(self, address: int) -> bool:
        names = self._objects.type_names(address)
        return "Future" in names or "_asyncio.Future" in names or self._reader.is_task(address)

    def _variable(self, raw: RawFrame, name: str) -> int | None:
        return dict(self._frames.variables(raw)).get(name)

    def has_timeout(self, seen: Seen) -> bool:
        """Whether a task is inside of an ``async with`` block of a timeout."""
        for manager in self.entered(seen):
            if _TIMEOUT in self._objects.type_names(manager):
                when = self._objects.attribute(manager, "_when")
                if when is None or self._objects.type_name(when) != "NoneType":
                    return True
        return False

    def entered(self, seen: Seen) -> Iterator[int]:
        """The context managers of the blocks that a task is inside of."""
        for raw in seen.frames:
            yield from (block.manager for block in self._withs.of(
                raw if seen.running else self._frames.resumed(raw)))

    def _shields(self) -> dict[int, list[int]]:
        """Future that `asyncio.shield` returned -> the tasks behind it."""
        if self._shielded is None:
            self._shielded = {}
            for address in self._seen:
                for name, value in self._captured(address, "asyncio.tasks"):
                    if name == "outer":
                        self._shielded.setdefault(value, []).append(address)
        return self._shielded

    def _chained(self, future: int) -> int | None:
        """The future of `concurrent.futures` that a future of asyncio follows, or None."""
        return next((value for name, value in self._captured(future, "asyncio.futures")
                     if name == "source" and not self._is_asyncio_future(value)), None)

    def _is_asyncio_future(self, address: int) -> bool:
        if any(name.startswith("_asyncio.") for name in self._objects.type_names(address)):
            return True
        return self._objects.attribute(address, "_loop") is not None

    def _captured(self, future: int, module: str) -> Iterator[tuple[str, int]]:
        """Free variables of the callbacks of a future that a module of asyncio defines."""
        try:
            for callback in self._reader.callbacks(future):
                if self._objects.type_name(callback) == "function":
                    source, variables = self._reader.free_variables(callback)
                    if module_of(source) == module:
                        yield from variables.items()
        except GdbextError as error:
            self._cannot_read(future, because_of(error, "callbacks"))


def _is_own(raw: RawFrame) -> bool:
    """Whether a frame is the program's, not of asyncio or anyio."""
    return not is_in(raw.frame, "asyncio") and library_of(raw.frame) != _ANYIO
