"""A mistake in a stage of the snapshot costs that stage, and no deadlock."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from gdbext import snapshot
from gdbext.errors import INTERNAL, GdbextError
from gdbext.holders import locks, owners
from gdbext.locks.seen import SeenLock
from gdbext.model import Report
from gdbext.narrate.reasons import explain
from gdbext.snapshot import Snapshot, take_snapshot
from gdbext.stacks import mixed
from gdbext.threads import findings, python_side
from gdbext.waits import parked, recognisers
from tests.support.fake_python import VERSIONS
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import FakeThread
from tests.support.round_trip import checked
from tests.support.snapshots import abba

#: What raises an exception, and the stage that the report names.
STAGES: tuple[tuple[object, str, str], ...] = (
    (snapshot, "restore_interrupted", "signal handlers"),
    (snapshot, "find_restarted_waits", "restarted system calls"),
    (snapshot, "read_python_side", "Python"),
    (python_side, "thread_names", "names of threads"),
    (recognisers, "lone_gil_waits", "waits"),
    (parked.ParkedWaits, "held", "critical sections"),
    (locks, "read_robust_mutexes", "robust mutexes"),
    (owners, "_name", "names of locks"),
    (snapshot, "find_tasks", "asyncio"),
    (snapshot, "find_greenlets", "greenlets"),
    (snapshot, "find_greenlet_waits", "greenlets"),
    (mixed.MixedStacks, "stack", "stacks"),
    (python_side.PythonSide, "runtimes", "runtimes"),
)


@pytest.fixture(autouse=True)
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have mistakes guarded as for users."""
    monkeypatch.setattr(findings, "GUARDED", (GdbextError, *INTERNAL))


def fails(*_: Any, **__: Any) -> Any:
    raise KeyError("a mistake")


def fails_if(condition: Callable[..., bool], function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: fails() if condition(*arguments) else function(*arguments)


def deadlock_and_third_thread() -> tuple[PythonTarget, FakeThread, int]:
    """A deadlock of two native threads, and a thread of Python that waits for a lock that it does not hold."""
    target = PythonTarget(VERSIONS[-1])
    abba(target)
    third, _ = target.python_thread()
    lock = target.mutex(third.ref.lwp)
    target.waits_for_mutex(third, lock)
    return target, third, lock


def problems(report: Report, stage: str) -> list[str]:
    return [explain(problem.why) for problem in report.problems if problem.where == stage]


def check(report: Report, stage: str) -> None:
    """The deadlock is in the report, and one problem with the stage and the line that failed."""
    assert {1, 2} in [set(deadlock.threads) for deadlock in report.deadlocks]
    problem, = problems(report, stage)
    assert re.search(r"a bug in gdbext, please report it: KeyError in test_guarded_stages.py:\d+$", problem)
    checked(report)


def judged(target: PythonTarget) -> tuple[Snapshot, Report]:
    taken = take_snapshot(target)
    return taken, taken.judged_report(lambda thread: True)


@pytest.mark.parametrize(("owner", "name", "stage"), STAGES, ids=[f"{stage[1]}" for stage in STAGES])
def test_mistake_in_a_stage_is_a_problem_and_the_deadlock_is_reported(
        owner: object, name: str, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, property(fails) if name == "held" else fails)
    taken, report = judged(deadlock_and_third_thread()[0])
    check(report, stage)
    assert [type(mistake) for mistake in set(taken.mistakes)][:1] == [KeyError]


def test_mistake_in_the_wait_of_one_thread_leaves_that_thread_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    target, third, _ = deadlock_and_third_thread()
    monkeypatch.setattr(recognisers, "_find_wait",
                        fails_if(lambda seen, _: seen.number == third.ref.number, recognisers._find_wait))
    report = judged(target)[1]
    check(report, "waits")
    thread = report.thread(third.ref.number)
    assert thread is not None
    assert (thread.status, thread.waits) == ("unknown", None)


def test_mistake_in_a_way_to_find_holders_leaves_the_lock_without_a_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    target, _, address = deadlock_and_third_thread()

    def way(lock: SeenLock, *_: object) -> None:
        if lock.address == address:
            fails()

    monkeypatch.setattr(owners, "WAYS", (way, *owners.WAYS))
    report = judged(target)[1]
    check(report, "holders")
    assert [lock.holders for lock in report.locks if lock.address == address] == [()]


@pytest.mark.parametrize("stage", ["source lines", "crash"])
def test_mistake_in_a_late_stage_is_added_to_the_report(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, report = judged(deadlock_and_third_thread()[0])
    monkeypatch.setattr(Snapshot, "crash", fails)
    check(taken.with_lines(report, fails) if stage == "source lines" else taken.with_crash(report), stage)


def test_values_of_variables_that_fail_leave_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, report = judged(deadlock_and_third_thread()[0])
    monkeypatch.setattr(mixed.MixedStacks, "with_variables", fails)
    assert taken.mixed(1, taken.limits).frames == report.threads[0].stack
    assert problems(taken.report(lambda thread: True), "values of variables")


def test_mistake_forbids_that_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    target = PythonTarget(VERSIONS[-1])
    target.thread()
    assert judged(target)[1].no_verdict is None
    monkeypatch.setattr(snapshot, "find_tasks", fails)
    report = judged(target)[1]
    assert report.no_verdict is not None
    assert "asyncio" in explain(report.no_verdict)


def test_mistake_in_the_search_for_a_standstill_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    target = PythonTarget(VERSIONS[-1])
    target.thread()
    monkeypatch.setattr(snapshot, "prove_standstill", fails)
    assert problems(judged(target)[1], "standstill")
