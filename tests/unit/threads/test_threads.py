from __future__ import annotations

import pytest

from gdbext.errors import CorruptStructure, ThreadUnavailable
from gdbext.model import EXCLUSIVE, RECORDED, Holder
from gdbext.snapshot import take_snapshot
from tests.support.fake_target import FakeTarget
from tests.support.snapshots import abba, lock_of, report_of, thread_of


def test_owner_is_a_tid_of_the_targets_own_namespace() -> None:
    target = FakeTarget()
    # in its container the process has the numbers 1, 7, 8; outside 100, 101, 102
    threads = [target.thread(tid=tid) for tid in (1, 7, 8)]
    a, b = target.mutex(7), target.mutex(8)
    target.waits_for_mutex(threads[2], a)
    target.waits_for_mutex(threads[1], b)
    report = report_of(target)
    assert [deadlock.threads for deadlock in report.deadlocks] == [(2, 3)]
    assert [thread.tid for thread in report.threads] == [1, 7, 8]


def test_namespace_number_that_is_another_threads_number_outside() -> None:
    target = FakeTarget()
    first, second = target.thread(tid=101), target.thread(tid=7)
    mutex = target.mutex(101)
    target.waits_for_mutex(second, mutex)
    assert lock_of(report_of(target), mutex).holders == (Holder(first.ref.number, EXCLUSIVE, RECORDED),)


def test_no_orphans_while_some_thread_does_not_tell_its_tid() -> None:
    target = FakeTarget()
    mutex = target.mutex(4242)
    target.waits_for_mutex(target.thread(tid=7), mutex)
    silent = target.thread(tid=8)
    target.build.put("struct pthread", silent.pthread, self=0)
    report = report_of(target)
    assert (lock_of(report, mutex).orphan, report.deadlocks) == (None, ())
    problem, = report.problems
    assert (problem.where, problem.what) == ("threads", "unreadable")


@pytest.mark.parametrize("broken", ["registers", "thread pointer", "descriptor", "native stack", "no stack pointer",
                                    "no program counter"])
def test_a_bad_thread_costs_a_line_and_not_the_report(broken: str) -> None:
    target = FakeTarget()
    abba(target)
    bad = target.waits_for_mutex(target.thread(), target.mutex(100))
    if broken == "registers":
        bad.available = False
    elif broken == "thread pointer":
        bad.registers["fs_base"] = 0xDEAD_0000
    elif broken == "descriptor":
        target.build.put("struct pthread", bad.pthread, self=5)
    elif broken == "native stack":
        bad.unwind_error = CorruptStructure(0, "the stack is damaged")
    elif broken == "no stack pointer":
        del bad.registers["rsp"]
    else:
        del bad.registers["rip"]
    report = take_snapshot(target).report(lambda thread: True)
    assert [deadlock.threads for deadlock in report.deadlocks] == [(1, 2)]
    assert len(report.threads) == 3
    assert len(report.problems) <= 1
    if broken in ("registers", "native stack", "no stack pointer", "no program counter"):
        assert [(problem.where, problem.what) for problem in report.problems] == [("thread 3", "unreadable")]


def test_ghosts_are_listed_and_nothing_is_claimed_of_them() -> None:
    target = FakeTarget()
    target.thread()
    ghost = target.thread()
    ghost.available = False
    mutex = target.mutex(ghost.ref.lwp)
    target.waits_for_mutex(target.fakes[0], mutex)
    report = report_of(target)
    assert (thread_of(report, ghost).status, thread_of(report, ghost).waits) == ("unknown", None)
    assert thread_of(report, ghost).stack == ()
    assert report.deadlocks == ()


def test_all_threads_run() -> None:
    target = FakeTarget()
    for _ in range(3):
        target.thread().available = False
    with pytest.raises(ThreadUnavailable):
        take_snapshot(target)
