from __future__ import annotations

import pytest

from gdbext.model import Problem
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from tests.support.fake_python import VERSIONS
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import READ
from tests.support.reasons import said
from tests.support.snapshots import edges, gil_and_rwlock, report_of, thread_of

WORD = (1 << 64) - 1


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_names_of_python_threads(version: str) -> None:
    target, main, worker, _ = gil_and_rwlock(version)
    python = target.python
    entries = [(python.integer(fake.pthread), python.instance("Thread", _name=python.string(name)))
               for fake, name in ((main, "MainThread"), (worker, "loader"))]
    threading = python.module_object(_active=python.dictionary(entries, unicode_keys=False))
    python.build.put("PyInterpreterState", target.interpreter, modules=python.namespace(threading=threading))
    assert [thread.python_name for thread in report_of(target).threads] == ["MainThread", "loader"]


def test_names_that_cannot_be_read_cost_a_line() -> None:
    target, _, _, _ = gil_and_rwlock("3.12.1")
    target.python.build.put("PyInterpreterState", target.interpreter, modules=0xDEAD_0000)
    report = report_of(target)
    assert len(report.deadlocks) == 1
    problem, = report.problems
    assert problem.where == "interpreter 0"


def test_free_gil(version: str) -> None:
    target = PythonTarget(version)
    target.blocked(target.python_thread()[0], READ, 0)
    report = report_of(target)
    gil = report.runtimes[0].interpreters[0].gil
    assert (gil.state, gil.holder, gil.waiters) == ("free", None, ())


def test_gil_held_by_a_thread_that_is_gone(version: str) -> None:
    target = PythonTarget(version)
    descriptor = 0x7FFF_0000_0000
    target.build.put("struct pthread", descriptor, self=descriptor, cancelhandling=0x10)
    dead = target.python.thread(target.interpreter, descriptor)
    target.python.take_gil(target.interpreter, dead)
    target.waits_for_gil(target.python_thread()[0])
    report = report_of(target)
    gil = report.runtimes[0].interpreters[0].gil
    assert (gil.state, gil.holder, said(gil.orphan)) == ("held", None, "thread exited")
    assert edges(report) == [{(1, "gil:0", None)}]


def test_gil_whose_holder_names_no_thread_is_not_said_to_be_held_by_one_that_is_gone(version: str) -> None:
    target = PythonTarget(version)
    dead = target.python.thread(target.interpreter, 0x7FFF_0000_0010)
    target.python.take_gil(target.interpreter, dead)
    target.waits_for_gil(target.python_thread()[0])
    report = report_of(target)
    gil = report.runtimes[0].interpreters[0].gil
    assert (gil.state, gil.holder, gil.orphan, report.deadlocks) == ("held", None, None, ())
    assert any("is not a thread descriptor" in explain(problem.why) for problem in report.problems)
    assert report.no_verdict is not None


def test_gil_held_by_a_thread_that_runs_and_cannot_be_read(version: str) -> None:
    # as in GDB's non-stop mode: its registers are not available, so its thread state is linked to no thread
    target = PythonTarget(version)
    holder, tstate = target.python_thread()
    holder.available = False
    target.python.take_gil(target.interpreter, tstate)
    target.waits_for_gil(target.python_thread()[0])
    report = report_of(target)
    gil = report.runtimes[0].interpreters[0].gil
    assert (gil.state, gil.holder, gil.orphan) == ("held", None, None)
    assert report.deadlocks == ()
    assert report.no_verdict is not None
    assert any(problem.where == "gil:0" for problem in report.problems)


def test_gil_held_by_a_thread_state_in_no_list(version: str) -> None:
    target = PythonTarget(version)
    target.python.take_gil(target.interpreter, 0x1234_5670)
    target.waits_for_gil(target.python_thread()[0])
    report = report_of(target)
    assert report.deadlocks == ()
    assert Problem("gil:0", "not recorded", because("owner-in-no-list", tstate=0x12345670)) in report.problems


def test_interpreters_with_a_gil_of_their_own() -> None:
    target = PythonTarget("3.12.1")
    second = target.python.interpreter(1, following=target.interpreter)
    one, two = target.thread(), target.thread()
    target.python.take_gil(target.interpreter, target.python.thread(target.interpreter, one.pthread))
    target.python.take_gil(second, target.python.thread(second, two.pthread))
    target.waits_for_gil(one, second)
    target.waits_for_gil(two, target.interpreter)
    report = report_of(target)
    locks = [interpreter.gil.lock for interpreter in report.runtimes[0].interpreters]
    assert len(set(locks)) == 2
    assert edges(report) == [{(1, locks[1], 2), (2, locks[0], 1)}]


def test_interpreters_that_share_a_gil_have_one_lock() -> None:
    target = PythonTarget("3.12.1")
    second = target.python.interpreter(1, following=target.interpreter)
    target.python.build.put("PyInterpreterState", second, gil=target.python.gil_of(target.interpreter), own_gil=0)
    target.thread()
    report = report_of(target)
    assert [interpreter.gil.lock for interpreter in report.runtimes[0].interpreters] == ["gil:0", "gil:0"]
    assert [lock.id for lock in report.locks] == ["gil:0"]


def test_damaged_python_stack_costs_a_line() -> None:
    target, main, _, _ = gil_and_rwlock("3.13.0")
    state = thread_of(report_of(target), main).tstate
    assert state is not None
    target.python.build.put("PyThreadState", state, current_frame=0xDEAD_0000)
    report = report_of(target)
    assert [deadlock.threads for deadlock in report.deadlocks] == [(1, 2)]
    assert [problem.where for problem in report.problems] == ["thread 1"]
