"""A Python program whose threads take locks in `with` statements, and what reports say of it."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.model import Lock, PyFrame, Report
from gdbext.model.reasons import because
from gdbext.snapshot import take_snapshot
from tests.support.fake_python import Exit, FakePython
from tests.support.fake_target import WAIT_BITSET_REALTIME, FakeTarget, FakeThread

THREADING = "/usr/lib/python3/threading.py"
INSIDE = because("in-with-block")


class Program:
    """A process with a Python of some version."""

    def __init__(self, version: str) -> None:
        self.target = FakeTarget()
        self.python = FakePython(self.target.ram, version)
        self.target.loaded.append(self.python.runtime())
        self.interpreter = self.python.interpreter()
        self.globals = self.python.namespace(__name__=self.python.string("bank"))

    def thread(self, frame: int = 0) -> FakeThread:
        """A thread that runs a Python frame."""
        made = self.target.thread()
        tstate = self.python.thread(self.interpreter, made.pthread)
        if frame:
            self.python.innermost(tstate, frame)
        return made

    def frame(self, taken: Sequence[int] = (), waiting: int = 0, **more: object) -> int:
        """A frame in `with` blocks of locks, that perhaps waits at one for another."""
        more.setdefault("namespace", self.globals)
        exits = [self.python.exit_of(lock) for lock in taken]
        wanted: Exit | None = self.python.exit_of(waiting) if waiting else None
        return self.python.in_with(exits, wanted, **more)  # type: ignore[arg-type]

    def sleeps(self, thread: FakeThread, lock: int, timeout: int = 0) -> FakeThread:
        """Let a thread sleep in a `_thread.lock`, as its version does."""
        word = self.python.lock_word(lock)
        if "lock" in self.python.layouts["lockobject"]:
            word = self.python.park(thread.stack + 0x400, word, handed_off=0)
        return self.target.waits(thread, word, 0, WAIT_BITSET_REALTIME, timeout)

    def waiter(self, lock: int, taken: Sequence[int] = (), timeout: int = 0, **more: object) -> FakeThread:
        """A thread that waits at a `with` statement for a lock."""
        return self.sleeps(self.thread(self.frame(taken, lock, **more)), lock, timeout)

    def look(self) -> Report:
        """What gdbext says."""
        return take_snapshot(self.target).report(lambda thread: False)


def lock_of(report: Report, address: int) -> Lock:
    lock, = (lock for lock in report.locks if lock.address == address)
    return lock


def edges(report: Report) -> list[set[tuple[int, str, int | None]]]:
    return [{(edge.waiter, edge.lock, edge.holder) for edge in deadlock.edges} for deadlock in report.deadlocks]


def taken_at(line: int) -> PyFrame:
    return PyFrame("work", "work", "/app/job.py", line)


def compiled_waiter(program: Program, lock: int, timeout: int = 0) -> FakeThread:
    """A thread whose Python frames have nothing to do with the lock that compiled code waits for."""
    thread = program.sleeps(program.thread(program.frame()), lock, timeout)
    program.target.remember(thread, lock)
    return thread


def rlock_waiter(program: Program, owner: int) -> int:
    """A thread that waits for a recursive lock."""
    python = program.python
    lock = python.rlock(owner)
    thread = program.thread(program.frame(waiting=lock))
    known = python.layouts["rlockobject"]
    if "mutex" in known:
        word = python.park(thread.stack + 0x400, lock + known.offset("mutex"))
    else:
        word = int.from_bytes(python.memory.read(lock + known.offset("rlock_lock"), 8), "little")
    program.target.waits(thread, word, 0, WAIT_BITSET_REALTIME)
    return lock
