"""Tasks of asyncio with their event loops, which tasks wait for each of them, and which holds a lock of asyncio.

A lock of asyncio records no owner; a task that is inside its ``async with`` block has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gdbext.cpython.code.with_blocks import WithBlocks
from gdbext.cpython.runtime import InterpreterState
from gdbext.cpython.tasks import PENDING, AsyncioReader, has_imported
from gdbext.cpython.values import ValueReader
from gdbext.errors import GdbextError, UnknownLayout
from gdbext.inferior.protocol import Memory
from gdbext.model import EventLoop, ProblemKind, Task
from gdbext.model.reasons import Reason, because, because_of
from gdbext.record import record
from gdbext.tasks.awaits import CONDITION, LOCK, Awaits, Seen
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import Python

RUNNING: Final = "running"

#: How many unreadable tasks are reported one by one.
_MAX_PROBLEMS = 20


@record
class AsyncioTasks:
    """The part of a report that is about asyncio."""

    loops: tuple[EventLoop, ...] = ()
    tasks: tuple[Task, ...] = ()


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
                if reader is not None:
                    asyncio = _Interpreter(memory, python, interpreter, number_of_tstate, reader, findings)
                    tasks += asyncio.tasks()
                    loops += asyncio.loops()
                if has_imported(python.objects, interpreter.address, "trio"):
                    from gdbext.tasks.trio_tasks import find_trio_tasks  # few reports need it

                    more = find_trio_tasks(memory, python, tuple([
                        tstate.address for tstate in interpreter.threads]), number_of_tstate, findings)
                    loops += more[0]
                    tasks += more[1]
            except GdbextError as error:
                what: ProblemKind = "not applicable" if isinstance(error, UnknownLayout) else "unreadable"
                findings.problem(f"asyncio in interpreter {interpreter.id}", what, because_of(error))
    return AsyncioTasks(tuple(loops), tuple(tasks))


class _Interpreter:
    """asyncio in one interpreter."""

    def __init__(self, memory: Memory, python: Python, interpreter: InterpreterState,
                 number_of_tstate: Mapping[int, int], reader: AsyncioReader, findings: Findings) -> None:
        self._objects = python.objects
        self._findings = findings
        self._reader = reader
        self._tstates = tuple([tstate.address for tstate in interpreter.threads])
        self._by_pthread = {tstate.thread_id: tstate.address for tstate in interpreter.threads if tstate.thread_id}
        self._number_of_tstate = number_of_tstate
        self._unread = 0
        self._tstate_of_loop: dict[int, int | None] = {}
        self._running: set[int] = set()
        self._seen: dict[int, Seen] = {}
        withs = WithBlocks(memory, python.runtime.layouts, python.objects, python.frames)
        values = ValueReader(memory, python.runtime.layouts, python.objects)
        self._awaits = Awaits(python.objects, values, python.frames, withs, reader, self._seen, self._cannot_read)
        self._find_loops()
        self._read_tasks()

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
            found.append(EventLoop(address, kind, self._thread(address), self._watched(address)))
        return sorted(found, key=lambda loop: (loop.thread is None, loop.thread or 0, loop.address))

    def _watched(self, loop: int) -> int | None:
        try:
            return self._reader.watched(loop)
        except GdbextError:
            return None

    # -- tasks -----------------------------------------------------------------------------------------------

    def _read_tasks(self) -> None:
        addresses, problems = self._reader.tasks(self._tstates)
        for problem in problems:
            self._findings.problem("tasks of asyncio", "unreadable", because("text", text=problem))
        for address in [*addresses, *self._running]:
            if address not in self._seen:
                seen = self._read(address)
                # finished tasks stay in asyncio's sets, in some versions, as long as anybody has them
                if seen is not None and seen.state.state == PENDING:
                    self._seen[address] = seen

    def _read(self, address: int) -> Seen | None:
        try:
            state = self._reader.task(address)
            tstate = self._tstate(state.loop)
            # one that has started another eagerly, or runs a loop itself, is not the current one, and runs too
            runs = state.state == PENDING and state.waiter is None and self._reader.is_executing(state.coroutine)
            if address in self._running or runs:
                frames = self._reader.running_frames(tstate, state.coroutine) if tstate is not None else ()
                return Seen(state, frames, True)
            if state.state != PENDING or not state.coroutine:
                return Seen(state, (), False)
            chain = self._reader.generators.await_chain(state.coroutine)
            self._awaits.spend(len(chain.frames))
            if chain.problem is not None:
                self._cannot_read(address, because("part-unreadable", part="coroutines", error=chain.problem))
            return Seen(state, chain.frames, False)
        except UnknownLayout:
            raise
        except GdbextError as error:
            self._cannot_read(address, because_of(error))
            return None

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
                seen.awaits = self._awaits.of(seen)
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

    def _task(self, seen: Seen, awaited_by: Sequence[int]) -> Task:
        state = seen.state
        known = tuple(address for address in seen.awaits.tasks if address in self._seen)
        awaits = seen.awaits
        if known != awaits.tasks:  # one that cannot be read is not the program's task any more than another future
            awaits = replace(awaits, tasks=known, others=awaits.others + len(awaits.tasks) - len(known))
        return Task(state.address, state.name, state.loop, self._thread(state.loop),
                    RUNNING if seen.running else state.state, tuple(raw.frame for raw in reversed(seen.frames)),
                    awaits, tuple(awaited_by))

    # -- holders ---------------------------------------------------------------------------------------------

    def _find_holders(self) -> None:
        waiting = [seen for seen in self._seen.values() if seen.awaits.kind == LOCK]
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
                seen.awaits = replace(seen.awaits, holders=tuple(found), timed=self._awaits.has_timeout(seen))

    def _held(self, seen: Seen) -> Iterator[int]:
        """The locks of asyncio whose `async with` blocks a task is inside of."""
        for manager in self._awaits.entered(seen):
            names = self._objects.type_names(manager)
            if "Lock" in names:
                yield manager
            # while it waits for the condition it does not have its lock
            elif "Condition" in names and (seen.awaits.kind, seen.awaits.address) != (CONDITION, manager):
                lock = self._objects.attribute(manager, "_lock")
                if lock and (seen.awaits.kind, seen.awaits.address) != (LOCK, lock):
                    yield lock


def _order(task: Task) -> tuple[object, ...]:
    # Task-2 before Task-10; tasks without a name last
    parts = re.split(r"(\d{1,18})", (task.name or "")[:100])
    return (task.name is None, [(int(part), "") if index % 2 else (0, part) for index, part in enumerate(parts)],
            task.address)
