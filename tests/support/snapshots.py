"""Snapshots of fake targets: two deadlocks that many tests start from, and how to find things in a report."""

from __future__ import annotations

from gdbext.model import Lock, Report, TargetKind, Thread
from gdbext.snapshot import take_snapshot
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import WAIT_BITSET_REALTIME, FakeTarget, FakeThread
from tests.support.round_trip import checked


def report_of(target: FakeTarget) -> Report:
    return checked(take_snapshot(target).report(lambda thread: False))


def lock_of(report: Report, address: int) -> Lock:
    lock, = (lock for lock in report.locks if lock.address == address)
    return lock


def thread_of(report: Report, fake: FakeThread) -> Thread:
    thread = report.thread(fake.ref.number)
    assert thread is not None
    return thread


def edges(report: Report) -> list[set[tuple[int, str, int | None]]]:
    return [{(edge.waiter, edge.lock, edge.holder) for edge in deadlock.edges} for deadlock in report.deadlocks]


def abba(target: FakeTarget) -> tuple[FakeThread, FakeThread, int, int]:
    """Two threads that hold one mutex each and wait for the other's."""
    one, two = target.thread(), target.thread()
    a, b = target.mutex(one.ref.lwp), target.mutex(two.ref.lwp)
    target.waits_for_mutex(one, b)
    target.waits_for_mutex(two, a)
    return one, two, a, b


def gil_and_rwlock(version: str, kind: TargetKind = "live") -> tuple[PythonTarget, FakeThread, FakeThread, int]:
    """The main thread has the GIL and wants the lock; a worker has the lock and wants the GIL."""
    target = PythonTarget(version, kind)
    (main, main_state), (worker, worker_state) = target.python_thread(), target.python_thread()
    target.python.take_gil(target.interpreter, main_state)
    lock = target.rwlock(__readers=3, __wrphase_futex=1, __writers_futex=3, __cur_writer=worker.ref.lwp)
    target.waits(main, lock + 12, 3, WAIT_BITSET_REALTIME)
    target.waits_for_gil(worker)
    target.runs_python(main, main_state, ("update", 41), ("main", 90))
    target.runs_python(worker, worker_state, ("work", 17))
    return target, main, worker, lock
