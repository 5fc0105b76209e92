from __future__ import annotations

from collections.abc import Sequence

import pytest

from gdbext.model import DERIVED, EXCLUSIVE, Holder, PyFrame, Report
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from tests.support.fake_python import VERSIONS
from tests.support.lock_program import Program, edges, lock_of, taken_at


@pytest.fixture(params=VERSIONS)
def program(request: pytest.FixtureRequest) -> Program:
    return Program(str(request.param))


def generator(program: Program, lock: int, references: int = 1, names: Sequence[str] = ()) -> int:
    """A generator that is suspended inside a `with` block of a lock."""
    return program.python.generator_of(program.frame([lock], function="rows", names=names), references)


def self_deadlock(program: Program, references: int, names: Sequence[str] = ()) -> tuple[int, Report]:
    """A thread waits for the lock that a generator in one of its variables has taken."""
    lock = program.python.lock()
    program.waiter(lock, variables=[("rows", generator(program, lock, references, names))])
    return lock, program.look()


def test_generator_that_only_one_thread_can_resume_makes_that_thread_the_holder(program: Program) -> None:
    lock, report = self_deadlock(program, 1)
    holder, = lock_of(report, lock).holders
    why = because("in-suspended-generator", file="/app/job.py", line=101, thread=1)
    assert holder == Holder(1, EXCLUSIVE, DERIVED, why, PyFrame("rows", "rows", "/app/job.py", 101))
    assert edges(report) == [{(1, f"py-lock:{lock:#x}", 1)}]


@pytest.mark.parametrize("references", [2, 3, 1 << 31])
def test_generator_with_other_references_has_candidates(program: Program, references: int) -> None:
    lock, report = self_deadlock(program, references)
    found = lock_of(report, lock)
    assert (found.holders, found.candidates) == ((), (1,))
    assert found.why is not None
    assert found.why.code == "in-shared-generator"
    assert explain(found.why).endswith("which another thread may resume")


def test_generator_in_the_frames_of_two_threads_has_candidates(program: Program) -> None:
    lock = program.python.lock()
    rows = generator(program, lock, 2)
    program.waiter(lock, variables=[("rows", rows)])
    program.thread(program.frame(variables=[("rows", rows)]))
    report = program.look()
    assert (lock_of(report, lock).holders, lock_of(report, lock).candidates) == ((), (1, 2))


def test_all_references_in_the_frames_of_one_thread(program: Program) -> None:
    lock = program.python.lock()
    rows = generator(program, lock, 2)
    outer = program.frame(variables=[("rows", rows)], function="outer")
    program.waiter(lock, variables=[("rows", rows)], previous=outer)
    assert [holder.thread for holder in lock_of(program.look(), lock).holders] == [1]


def test_generator_that_may_have_released_the_lock_has_candidates(program: Program) -> None:
    lock, report = self_deadlock(program, 1, names=("release",))
    found = lock_of(report, lock)
    assert (found.holders, found.candidates) == ((), (1,))
    assert found.why == because("maybe-left-with-block")


def test_function_that_releases_the_lock_after_the_generator_was_suspended(program: Program) -> None:
    lock = program.python.lock()
    variables = [("rows", generator(program, lock)), ("lock", lock)]
    program.waiter(lock, variables=variables, names=("release",))
    found = lock_of(program.look(), lock)
    assert (found.holders, found.candidates) == ((), (1,))


def test_two_suspended_frames_contradict_each_other(program: Program) -> None:
    lock = program.python.lock()
    program.waiter(lock, variables=[("a", generator(program, lock)), ("b", generator(program, lock))])
    found = lock_of(program.look(), lock)
    assert (found.holders, found.candidates) == ((), (1,))
    assert found.why == because("in-several-with-blocks")


def test_thread_that_is_running_and_can_resume_the_generator_is_not_deadlocked(program: Program) -> None:
    lock = program.python.lock()
    program.thread(program.frame(variables=[("rows", generator(program, lock))]))
    program.waiter(lock)
    report = program.look()
    assert [holder.thread for holder in lock_of(report, lock).holders] == [1]
    assert report.deadlocks == ()


def test_running_frame_is_preferred(program: Program) -> None:
    """No suspended frame is read if a thread is inside a `with` block of the lock."""
    lock = program.python.lock()
    program.thread(program.frame([lock]))
    program.waiter(lock, variables=[("rows", generator(program, lock))])
    holder, = lock_of(program.look(), lock).holders
    assert holder == Holder(1, EXCLUSIVE, DERIVED, because("in-with-block"), taken_at(101))


def test_finished_generator_holds_nothing(program: Program) -> None:
    python, lock = program.python, program.python.lock()
    rows = generator(program, lock)
    if "gi_frame" in python.layouts["PyGenObject"]:
        python.build.put("PyGenObject", rows, gi_frame=0)
    else:
        python.build.put("PyGenObject", rows, gi_frame_state=5 if python.version_tuple >= (3, 15) else 4)
    program.waiter(lock, variables=[("rows", rows)])
    found = lock_of(program.look(), lock)
    assert (found.holders, found.candidates) == ((), ())
