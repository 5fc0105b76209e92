from __future__ import annotations

import pytest

from gdbext.cpython.values import DEFAULT_LIMITS
from gdbext.errors import GdbextError
from gdbext.stacks.thread_stacks import MergedStack, ThreadStacks
from tests.support import versions
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import APP_TEXT, FakeTarget


def merged(target: FakeTarget, number: int = 1) -> MergedStack | None:
    (ref,) = [thread for thread in target.threads() if thread.number == number]
    return ThreadStacks(target).merged(ref, target.registers(ref))


@pytest.mark.parametrize("version", versions.from_minor(11))
def test_python_frames_stand_at_their_eval_frame(version: str) -> None:
    target = PythonTarget(version)
    thread, tstate = target.python_thread()
    target.runs_python(thread, tstate, ("update", 41), ("main", 90))
    stack = merged(target)
    assert stack is not None
    assert stack.unmerged is None
    placed = {index: [(frame.function, frame.line) for frame in frames] for index, frames in stack.python.items()}
    assert [frame for index in sorted(placed) for frame in placed[index]] == [("update", 41), ("main", 90)]
    evals = [i for i, (pc, _) in enumerate(stack.native) if pc == target.eval]
    assert sorted(placed) == evals
    assert not stack.hidden & {*placed}
    assert APP_TEXT + 0x80 in {pc for pc, _ in stack.native}


def test_thread_without_python() -> None:
    target = PythonTarget("3.11.7")
    target.python_thread()
    target.thread()
    assert merged(target, 2) is None


def test_process_without_python() -> None:
    target = FakeTarget()
    target.thread()
    assert merged(target) is None


def test_stack_that_cannot_be_merged_is_told_apart() -> None:
    target = PythonTarget("3.11.7")
    thread, tstate = target.python_thread()
    target.runs_python(thread, tstate, ("update", 41))
    thread.frames = [(APP_TEXT + 0x80, thread.stack + 0x8000)]  # above what the thread state links
    stack = merged(target)
    assert stack is not None
    assert stack.unmerged
    assert [frame.function for frame in stack.apart] == ["update"]
    assert (stack.python, stack.hidden) == ({}, frozenset())
    assert len(stack.variables(DEFAULT_LIMITS)) == 1


def test_other_architectures_are_refused() -> None:
    target = FakeTarget()
    target.architecture = "riscv64"
    with pytest.raises(GdbextError, match="riscv64"):
        ThreadStacks(target)
