"""Tasks of asyncio: what each of them waits for, which tasks wait for it, and the cycles in which none can continue.

A task records the future that it waits for. What that future is for is known from the future itself (a task, a
``gather``) or from the function of asyncio that awaits it: ``Lock.acquire`` of a lock, ``wait_for`` of a task. A
lock of asyncio records no owner; a task that is inside its ``async with`` block has it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.runtime import InterpreterState
from gdbext.cpython.tasks import MAX_TASKS, PENDING, AsyncioReader, TaskState
from gdbext.cpython.with_blocks import WithBlocks
from gdbext.errors import CorruptStructure, GdbextError, UnknownLayout
from gdbext.inferior.protocol import Memory
from gdbext.model import Awaited, EventLoop, ProblemKind, Task
from gdbext.model.reasons import Reason, because, because_of
from gdbext.record import record
from gdbext.remembered import remembered
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import Python
from gdbext.verdict.graph import find_circles

RUNNING: Final = "running"

_LIBRARY = re.compile(r"(?:^|/)asyncio/(\w+)\.py$")
#: Classes of asyncio whose methods wait for the object itself.
_CLASSES = ("Lock", "Event", "Condition", "Semaphore", "BoundedSemaphore", "Barrier", "Queue", "PriorityQueue",
            "LifoQueue", "StreamReader", "StreamWriter", "Process", "Server", "TaskGroup")
_LOCK, _CONDITION, _GATHERING, _TIMEOUT = "asyncio.Lock", "asyncio.Condition", "_GatheringFuture", "Timeout"
#: How many futures within futures are looked through.
_MAX_NESTING = 20
#: How many frames of coroutines and awaited futures are read in all: no program has more.
_MAX_READ = 2_000_000
#: In how many frames of the program a name for the awaited object is searched.
_NAMING_FRAMES = 5
#: How many unreadable tasks are reported one by one.
_MAX_PROBLEMS = 20


@record
class AsyncioTasks:
    """The part of a report that is about asyncio."""

    loops: tuple[EventLoop, ...] = ()
    tasks: tuple[Task, ...] = ()
    cycles: tuple[tuple[int, ...], ...] = ()


@record
class _Site:
    """What a function of asyncio that stands in an await waits for: an object, or futures."""

    kind: str
    address: int | None = None
    futures: tuple[int, ...] | None = None
    timed: bool = False


@dataclass
class _Seen:
    """A task on the way to the report; `frames` are outermost first."""

    state: TaskState
    frames: tuple[RawFrame, ...]
    running: bool
    awaits: Awaited = Awaited()


def find_tasks(memory: Memory, pythons: Iterable[Python], number_of_tstate: Mapping[int, int],
               reader_of: Callable[[Python, int], AsyncioReader | None], findings: Findings) -> AsyncioTasks:
    """All event loops and tasks of a target; what cannot be read is noted in the findings.

    :param number_of_tstate: ``PyThreadState *`` -> thread number.
    :param reader_of: see `PythonSide.asyncio`.
    """
    loops: list[EventLoop] = []
    tasks: list[Task] = []
    for python in pythons:
        for interpreter in python.interpreters:
            try:
                reader = reader_of(python, interpreter.address)
                if reader is None:
                    continue
                asyncio = _Interpreter(memory, python, interpreter, number_of_tstate, reader, findings)
                tasks += asyncio.tasks()
                loops += asyncio.loops()
            except GdbextError as error:
                what: ProblemKind = "not applicable" if isinstance(error, UnknownLayout) else "unreadable"
                findings.problem(f"asyncio in interpreter {interpreter.id}", what, because_of(error))
    return AsyncioTasks(tuple(loops), tuple(tasks), find_cycles(tasks))


class _Interpreter:
    """asyncio in one interpreter."""

    def __init__(self, memory: Memory, python: Python, interpreter: InterpreterState,
                 number_of_tstate: Mapping[int, int], reader: AsyncioReader, findings: Findings) -> None:
        self._objects = python.objects
        self._findings = findings
        self._frames = python.frames
        self._withs = WithBlocks(memory, python.runtime.layouts, self._objects, self._frames)
        self._reader = reader
        self._tstates = tuple([tstate.address for tstate in interpreter.threads])
        self._by_pthread = {tstate.thread_id: tstate.address for tstate in interpreter.threads if tstate.thread_id}
        self._number_of_tstate = number_of_tstate
        self._unread = 0
        self._read_count = 0
        self._tstate_of_loop: dict[int, int | None] = {}
        self._running: set[int] = set()
        self._shielded: dict[int, list[int]] | None = None
        self._names: dict[tuple[int, int], str | None] = {}
        self._find_loops()
        self._seen = self._read_tasks()

    # -- loops -----------------------------------------------------------------------------------------------

    def _find_loops(self) -> None:
        try:
            self._running.update(self._reader.current_tasks())
        except GdbextError as error:
            self._findings.problem("tasks of asyncio", "unreadable", because_of(error, "asyncio-running"))
        for tstate in self._tstates:
            try:
                loop, task = self._reader.running(tstate)
                if loop is None or not any("Loop" in name for name in self._objects.type_names(loop)):
                    continue
            except GdbextError as error:
                self._findings.problem(f"thread state {tstate:#x}", "unreadable", because_of(error, "event-loop"))
                continue
            self._tstate_of_loop[loop] = tstate
            if task is not None:
                self._running.add(task)

    def _tstate(self, loop: int) -> int | None:
        if loop not in self._tstate_of_loop:
            try:
                # asyncio's Python implementation does not note it in the thread state
                pthread = self._reader.thread_id(loop)
            except GdbextError:
                pthread = None
            self._tstate_of_loop[loop] = self._by_pthread.get(pthread) if pthread is not None else None
        return self._tstate_of_loop[loop]

    def _thread(self, loop: int) -> int | None:
        tstate = self._tstate(loop)
        return self._number_of_tstate.get(tstate) if tstate is not None else None

    def loops(self) -> list[EventLoop]:
        """The loops that run or have tasks; those that run first, in the order of their threads."""
        addresses = {*self._tstate_of_loop, *(seen.state.loop for seen in self._seen.values())}
        found = []
        for address in addresses:
            try:
                kind = self._objects.type_name(address).rpartition(".")[2]
            except GdbextError as error:
                kind = "unreadable"
                self._findings.problem(f"event loop {address:#x}", "unreadable", because_of(error))
            found.append(EventLoop(address, kind, self._thread(address)))
        return sorted(found, key=lambda loop: (loop.thread is None, loop.thread or 0, loop.address))

    # -- tasks -----------------------------------------------------------------------------------------------

    def _read_tasks(self) -> dict[int, _Seen]:
        addresses, problems = self._reader.tasks(self._tstates)
        for problem in problems:
            self._findings.problem("tasks of asyncio", "unreadable", because("text", text=problem))
        found: dict[int, _Seen] = {}
        for address in [*addresses, *self._running]:
            if address not in found:
                seen = self._read(address)
                # finished tasks stay in asyncio's sets, in some versions, as long as anybody has them
                if seen is not None and seen.state.state == PENDING:
                    found[address] = seen
        return found

    def _read(self, address: int) -> _Seen | None:
        try:
            state = self._reader.task(address)
            tstate = self._tstate(state.loop)
            # one that has started another eagerly, or runs a loop itself, is not the current one, and runs too
            runs = state.state == PENDING and state.waiter is None and self._reader.is_executing(state.coroutine)
            if address in self._running or runs:
                frames = self._reader.running_frames(tstate, state.coroutine) if tstate is not None else ()
                return _Seen(state, frames, True)
            if state.state != PENDING or not state.coroutine:
                return _Seen(state, (), False)
            chain = self._reader.await_chain(state.coroutine)
            self._spend(len(chain.frames))
            if chain.problem is not None:
                self._cannot_read(address, because("part-unreadable", part="coroutines", error=chain.problem))
            return _Seen(state, chain.frames, False)
        except UnknownLayout:
            raise
        except GdbextError as error:
            self._cannot_read(address, because_of(error))
            return None

    def _spend(self, count: int) -> None:
        # each walk is bounded, but in damaged memory all tasks may share the longest one
        self._read_count += count
        if self._read_count > _MAX_READ:
            raise CorruptStructure(0, f"more than {_MAX_READ} coroutines and futures")

    def _cannot_read(self, address: int, why: Reason) -> None:
        self._unread += 1
        if self._unread <= _MAX_PROBLEMS:
            self._findings.problem(f"task {address:#x}", "unreadable", why)

    def tasks(self) -> list[Task]:
        """The tasks that are not finished, and finished ones that another still waits for."""
        waiting = list(self._seen)
        while waiting:
            seen = self._seen[waiting.pop()]
            try:
                seen.awaits = self._awaits(seen)
            except GdbextError as error:
                self._cannot_read(seen.state.address, because_of(error, "task-wait"))
            for address in seen.awaits.tasks:
                if address not in self._seen:
                    other = self._read(address)
                    if other is not None:
                        self._seen[address] = other
                        waiting.append(address)
        self._find_holders()
        awaited_by: dict[int, list[int]] = {}
        for seen in self._seen.values():
            for address in seen.awaits.tasks:
                awaited_by.setdefault(address, []).append(seen.state.address)
        if self._unread > _MAX_PROBLEMS:
            self._findings.problem("tasks of asyncio", "unreadable",
                                   because("more-unreadable", count=self._unread - _MAX_PROBLEMS))
        made = [self._task(seen, awaited_by.get(address, ())) for address, seen in self._seen.items()]
        return sorted(made, key=_order)

    def _task(self, seen: _Seen, awaited_by: Sequence[int]) -> Task:
        state = seen.state
        known = tuple(address for address in seen.awaits.tasks if address in self._seen)
        awaits = seen.awaits
        if known != awaits.tasks:  # one that cannot be read is not the program's task any more than another future
            awaits = replace(awaits, tasks=known, others=awaits.others + len(awaits.tasks) - len(known))
        return Task(state.address, state.name, state.loop, self._thread(state.loop),
                    RUNNING if seen.running else state.state, tuple(raw.frame for raw in reversed(seen.frames)),
                    awaits, tuple(awaited_by))

    # -- what a task waits for -------------------------------------------------------------------------------

    def _awaits(self, seen: _Seen) -> Awaited:
        waiter = seen.state.waiter
        if seen.running or waiter is None:
            return Awaited()
        site = self._site(seen, waiter)
        if site is None:
            return self._direct(seen, waiter)
        tasks, others = self._tasks_of(site.futures or ())
        timed = site.timed or bool(tasks) and self._has_timeout(seen)
        name = self._name(seen, site.address) if site.address is not None else None
        return Awaited(tasks, others, site.kind, site.address, name, (), timed)

    def _direct(self, seen: _Seen, waiter: int) -> Awaited:
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
            return Awaited((), 1, kind, address, self._name(seen, address))
        return Awaited(tasks, others, kind, timed=bool(tasks) and self._has_timeout(seen))

    def _tasks_of(self, futures: Iterable[int]) -> tuple[tuple[int, ...], int]:
        """The tasks that are awaited with futures, and how many other futures are. Finished ones do not count."""
        tasks: dict[int, None] = {}
        others = 0
        looked: set[int] = set()
        level = list(futures)
        for _ in range(_MAX_NESTING):
            self._spend(len(level))
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

    def _site(self, seen: _Seen, waiter: int) -> _Site | None:
        """The function of asyncio that awaits the future of a task, or None if the program's own code does."""
        found: _Site | None = None
        for raw in reversed(seen.frames):
            library = _LIBRARY.search(raw.frame.file)
            if library is None:
                break
            made = self._site_of(raw, library[1], waiter)
            if made is None:
                continue
            # Queue.join waits for an event of its own, a barrier for a condition; Condition.wait takes its lock again
            if found is None or (found.address is not None and made.address is not None and found.kind != _LOCK):
                found = made
        return found

    def _site_of(self, raw: RawFrame, file: str, waiter: int) -> _Site | None:
        function = raw.frame.function
        if file == "tasks":
            if function == "sleep":
                return _Site("asyncio.sleep")
            if function in ("wait_for", "_cancel_and_wait"):
                future = self._variable(raw, "fut")
                # up to 3.11 a timeout makes it wait for a future of its own
                timed = function == "wait_for" and future is not None and future != waiter
                if future is not None and self._is_future(future):
                    return _Site("asyncio.wait_for", futures=(future,), timed=timed)
            if function == "_wait":
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

    def _has_timeout(self, seen: _Seen) -> bool:
        """Whether a task is inside of an ``async with`` block of a timeout."""
        for manager in self._entered(seen):
            if _TIMEOUT in self._objects.type_names(manager):
                when = self._objects.attribute(manager, "_when")
                if when is None or self._objects.type_name(when) != "NoneType":
                    return True
        return False

    def _entered(self, seen: _Seen) -> Iterator[int]:
        """The context managers of the blocks that a task is inside of."""
        for raw in seen.frames:
            yield from (block.manager for block in self._withs.of(
                raw if seen.running else self._frames.resumed(raw)))

    def _shields(self) -> dict[int, list[int]]:
        """Future that `asyncio.shield` returned -> the tasks behind it."""
        if self._shielded is None:
            self._shielded = {}
            for address in self._seen:
                for name, value in self._captured(address, "tasks"):
                    if name == "outer":
                        self._shielded.setdefault(value, []).append(address)
        return self._shielded

    def _chained(self, future: int) -> int | None:
        """The future of `concurrent.futures` that a future of asyncio follows, or None."""
        return next((value for name, value in self._captured(future, "futures")
                     if name == "source" and not self._is_asyncio_future(value)), None)

    def _is_asyncio_future(self, address: int) -> bool:
        if any(name.startswith("_asyncio.") for name in self._objects.type_names(address)):
            return True
        return self._objects.attribute(address, "_loop") is not None

    def _captured(self, future: int, file: str) -> Iterator[tuple[str, int]]:
        """Free variables of the callbacks of a future that a file of asyncio defines."""
        try:
            for callback in self._reader.callbacks(future):
                if self._objects.type_name(callback) == "function":
                    source, variables = self._reader.free_variables(callback)
                    library = _LIBRARY.search(source)
                    if library is not None and library[1] == file:
                        yield from variables.items()
        except GdbextError as error:
            self._cannot_read(future, because_of(error, "callbacks"))

    # -- holders and names -----------------------------------------------------------------------------------

    def _find_holders(self) -> None:
        waiting = [seen for seen in self._seen.values() if seen.awaits.kind == _LOCK]
        if not waiting:
            return
        holders: dict[int, set[int]] = {}
        for seen in self._seen.values():
            try:
                for lock in self._held(seen):
                    holders.setdefault(lock, set()).add(seen.state.address)
            except GdbextError as error:
                self._cannot_read(seen.state.address, because_of(error, "async-with"))
        for seen in waiting:
            found = holders.get(seen.awaits.address or 0, ())
            if len(found) == 1:  # of several none is sure to have what only one can have
                seen.awaits = replace(seen.awaits, holders=tuple(found), timed=self._has_timeout(seen))

    def _held(self, seen: _Seen) -> Iterator[int]:
        """The locks of asyncio whose `async with` blocks a task is inside of."""
        for manager in self._entered(seen):
            names = self._objects.type_names(manager)
            if "Lock" in names:
                yield manager
            # while it waits for the condition it does not have its lock
            elif "Condition" in names and (seen.awaits.kind, seen.awaits.address) != (_CONDITION, manager):
                lock = self._objects.attribute(manager, "_lock")
                if lock and (seen.awaits.kind, seen.awaits.address) != (_LOCK, lock):
                    yield lock

    def _name(self, seen: _Seen, address: int) -> str | None:
        own = (raw for raw in reversed(seen.frames) if _LIBRARY.search(raw.frame.file) is None)
        for raw in itertools.islice(own, _NAMING_FRAMES):
            key = (raw.code, address)
            if key not in self._names:
                try:
                    self._names[key] = self._find_name(raw, address)
                except GdbextError:
                    self._names[key] = None  # a name is for the reader only
            if self._names[key] is not None:
                return self._names[key]
        return None

    def _find_name(self, raw: RawFrame, address: int) -> str | None:
        variables = self._frames.variables(raw)
        for name, value in variables:
            if value == address:
                return name
        owner = dict(variables).get("self")
        for name, value in self._objects.attributes(owner) if owner is not None else ():
            if value == address:
                return f"self.{name}"
        used = self._frames.names_of(raw.code)
        return next((name for name, value in self._global_variables(self._frames.globals(raw)).items()
                     if value == address and name in used), None)

    @remembered
    def _global_variables(self, namespace: int) -> dict[str, int]:
        pairs = ((self._objects.key_name(key), value) for key, value in self._objects.dict_items(namespace))
        return {name: value for name, value in pairs if name is not None}


def _order(task: Task) -> tuple[object, ...]:
    # Task-2 before Task-10; tasks without a name last
    parts = re.split(r"(\d{1,18})", (task.name or "")[:100])
    return (task.name is None, [(int(part), "") if index % 2 else (0, part) for index, part in enumerate(parts)],
            task.address)


def find_cycles(tasks: Sequence[Task]) -> tuple[tuple[int, ...], ...]:
    """Cycles of tasks each of which waits, without a timeout, only for the next one or for others that are stuck.

    A task can continue when one of those that it waits for can: of several the first may end the wait, with its result
    or by its failure. What remains without all that can continue only ends when a task is cancelled.
    """
    needs = {task.address: {*task.awaits.tasks, *task.awaits.holders} for task in tasks
             if task.state == PENDING and not task.awaits.timed and not task.awaits.others}
    return find_circles(needs)
