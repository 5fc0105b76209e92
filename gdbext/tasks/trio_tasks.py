"""Tasks of trio: each waits for the tasks in its nursery, an object of trio, a thread, or the world outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.trio import TRIO, TrioReader, TrioTask
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory
from gdbext.model import Awaited, EventLoop, Task
from gdbext.model.frames import library_of
from gdbext.model.reasons import Reason, because, because_of
from gdbext.record import record
from gdbext.tasks.names import AwaitedNames
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import Python

#: Classes of trio whose methods wait for the object itself.
_CLASSES = frozenset(("Event", "CapacityLimiter", "Semaphore", "Lock", "StrictFIFOLock", "Condition",
                      "MemorySendChannel", "MemoryReceiveChannel"))
_LOCKS = frozenset(("Lock", "StrictFIFOLock"))
#: Functions of trio that wait for something else, and what the report calls that.
_FUNCTIONS = {"sleep_until": "trio.sleep", "wait_readable": "trio.lowlevel.wait_readable",
              "wait_writable": "trio.lowlevel.wait_writable", "to_thread_run_sync": "trio.to_thread.run_sync",
              "wait_child_exiting": "trio.Process.wait"}
_READS = frozenset(("trio.lowlevel.wait_readable", "trio.lowlevel.wait_writable"))
#: Libraries whose frames are not the program's own.
_LIBRARIES = frozenset((TRIO, "anyio"))
#: The task by which other threads and handlers of signals wake a loop.
_WAKE_UP = ("task", "_entry_queue.py")
#: How many unreadable tasks are reported one by one.
_MAX_PROBLEMS = 20


@record
class _Seen:
    state: TrioTask
    frames: tuple[RawFrame, ...]
    running: bool


def find_trio_tasks(memory: Memory, python: Python, tstates: Sequence[int], number_of_tstate: Mapping[int, int],
                    findings: Findings) -> tuple[list[EventLoop], list[Task]]:
    """The event loops of trio in an interpreter, and their tasks; what cannot be read is noted in the findings.

    :param tstates: the thread states of the interpreter, ``PyThreadState *``.
    """
    loops: list[EventLoop] = []
    tasks: list[Task] = []
    reader = TrioReader(memory, python.runtime.layouts, python.objects, python.frames)
    for tstate in tstates:
        try:
            stack = python.frames.raw(tstate)
            runner = reader.runner(stack)
            if runner is None:
                continue
            loop = _Loop(reader, python, runner, number_of_tstate.get(tstate), stack, findings)
        except GdbextError as error:
            findings.problem(f"thread state {tstate:#x}", "unreadable", because_of(error, "event-loop"))
            continue
        loops.append(loop.as_loop())
        tasks += loop.tasks
    return loops, tasks


class _Loop:
    """One event loop."""

    def __init__(self, reader: TrioReader, python: Python, runner: int, thread: int | None,
                 stack: Sequence[RawFrame], findings: Findings) -> None:
        self._reader = reader
        self._objects = python.objects
        self._frames = python.frames
        self._names = AwaitedNames(python.objects, python.frames)
        self._runner = runner
        self._thread = thread
        self._stack = stack
        self._findings = findings
        self._unread = 0
        seen: dict[int, _Seen] = {}
        for address in reader.tasks(runner):
            try:
                found = self._read(address)
            except GdbextError as error:
                self._cannot_read(address, because_of(error))
                continue
            if found is not None:
                seen[address] = found
        if self._unread > _MAX_PROBLEMS:
            findings.problem("tasks of trio", "unreadable", because("more-unreadable",
                                                                    count=self._unread - _MAX_PROBLEMS))
        awaits = {address: self._awaited(each, seen) for address, each in seen.items()}
        awaited_by: dict[int, list[int]] = {}
        for address, found_awaits in awaits.items():
            for other in found_awaits.tasks:
                awaited_by.setdefault(other, []).append(address)
        self.tasks = sorted((self._task(each, awaits[address], awaited_by.get(address, ()))
                             for address, each in seen.items()), key=lambda task: (task.name or "", task.address))

    def as_loop(self) -> EventLoop:
        """The loop, with the number of tasks that wait for a descriptor; None if some tasks are not known."""
        watched = sum(task.awaits.kind in _READS for task in self.tasks)
        return EventLoop(self._runner, TRIO, self._thread, None if self._unread else watched)

    def _read(self, address: int) -> _Seen | None:
        """A task; None for that by which other threads wake the loop."""
        state = self._reader.task(address)
        own = self._frames.generator(state.coroutine)
        if own is not None and self._reader.generators.is_executing(state.coroutine):
            frames: list[RawFrame] = []
            for raw in self._stack:
                frames.append(raw)
                if raw.address == own.address:
                    return _Seen(state, tuple(reversed(frames)), True)
            return _Seen(state, (), True)
        chain = self._reader.generators.await_chain(state.coroutine)
        if chain.problem is not None:
            self._cannot_read(address, because("part-unreadable", part="coroutines", error=chain.problem))
        frames = list(chain.frames)
        if frames and (frames[0].frame.function, frames[0].frame.file.rpartition("/")[2]) == _WAKE_UP:
            return None
        return _Seen(state, tuple(frames), False)

    def _cannot_read(self, address: int, why: Reason) -> None:
        self._unread += 1
        if self._unread <= _MAX_PROBLEMS:
            self._findings.problem(f"task {address:#x}", "unreadable", why)

    def _task(self, seen: _Seen, awaits: Awaited, awaited_by: Sequence[int]) -> Task:
        return Task(seen.state.address, seen.state.name, self._runner, self._thread,
                    "running" if seen.running else "pending", tuple(raw.frame for raw in reversed(seen.frames)),
                    awaits, tuple(awaited_by))

    def _awaited(self, seen: _Seen, known: Mapping[int, _Seen]) -> Awaited:
        """What a task waits for; something unknown counts as one other future."""
        if seen.running or seen.state.scheduled:
            return Awaited()
        found = Awaited(others=1, kind="trio", timed=seen.state.timed)
        try:
            for raw in reversed(seen.frames):
                if library_of(raw.frame) not in _LIBRARIES:
                    break
                found = self._site(raw, seen, known) or found
        except GdbextError:
            return Awaited(others=1, kind="trio", timed=seen.state.timed)
        return found

    def _site(self, raw: RawFrame, seen: _Seen, known: Mapping[int, _Seen]) -> Awaited | None:
        """What a function of trio in an await waits for, or None."""
        timed = seen.state.timed
        kind = _FUNCTIONS.get(raw.frame.function)
        if kind is not None:
            return Awaited(others=1, kind=kind, timed=timed)
        owner = self._frames.variable(raw, "self")
        name = next(iter(self._objects.type_names(owner))).rpartition(".")[2] if owner else ""
        if name == "Nursery":
            children = tuple([child for child in seen.state.children.get(owner, ()) if child in known])
            others = len(seen.state.children.get(owner, ())) - len(children)
            return Awaited(children, others, "trio.Nursery", timed=timed)
        if name not in _CLASSES:
            return None
        holders: tuple[int, ...] = ()
        if name in _LOCKS:
            holders = tuple([task for task in (self._reader.attributes(owner).get("_owner", 0),) if task in known])
        return Awaited((), 0, f"trio.{name}", owner, self._names.find(seen.frames, owner, _is_own), holders, timed)


def _is_own(raw: RawFrame) -> bool:
    """Whether a frame is the program's, not of trio or anyio."""
    return library_of(raw.frame) not in _LIBRARIES
