from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from gdbext.arch.protocol import Syscall
from gdbext.cpython.bytecode import Bytecode, Instruction
from gdbext.cpython.frames import RawFrame
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model import Polling, PyFrame
from gdbext.threads.threads import SeenThread
from gdbext.waits.context import Context
from gdbext.waits.polling import find_polling

INNER = PyFrame("nap", "nap", "/app/job.py", 9)
OUTER = PyFrame("wait", "Job.wait", "/app/job.py", 4)
#: A test that leaves the loop, a call, and a jump back; then the end.
LOOP = Bytecode([Instruction(2 * i, name, 0, 2 * i + 2) for i, name in enumerate(("TEST", "CALL", "JUMP", "RETURN"))],
                [(1, 3), (2,), (0,), ()], [None] * 4)
#: The same without a condition.
ENDLESS = replace(LOOP, successors=[(1,), (2,), (0,), ()])
SLEEP = SeenWait(timed=True, seconds=0.5)


class Reader:
    """Functions by their address, and the line of each condition."""

    def __init__(self, functions: dict[int, Bytecode | None]) -> None:
        self.functions = self
        self.frames = self
        self._functions = functions

    def bytecode(self, code: int) -> Bytecode | None:
        """See `Functions.bytecode`."""
        return self._functions[code]

    def line(self, code: int, offset: int) -> int | None:
        """See `FrameReader.line`."""
        return 7 if offset == 0 else None


def found(functions: dict[int, Bytecode | None], wait: SeenWait = SLEEP, name: str = "nanosleep",
          kind: str = "live") -> Polling | None:
    stack = [RawFrame(0, 1, 2, INNER), RawFrame(0, 2, 2, OUTER)]

    class Locks:
        def stacks(self, number: int) -> list[tuple[Reader, list[RawFrame]]]:
            return [(Reader(functions), stack)]

    class Target:
        pass

    class Made:
        python_locks, target = Locks(), Target()

    Made.target.kind = kind  # type: ignore[attr-defined]

    class Seen:
        number, call = 1, Syscall(0, name, (), True)

    return find_polling(cast(SeenThread, cast(Any, Seen())), wait, cast(Context, cast(Any, Made())))


def test_loop_with_a_condition() -> None:
    assert found({1: LOOP, 2: None}) == Polling(replace(INNER, line=7), 0.5)
    assert found({1: ENDLESS, 2: LOOP}) == Polling(replace(OUTER, line=7), 0.5)


def test_loop_without_a_condition_is_work() -> None:
    assert found({1: ENDLESS, 2: ENDLESS}) is None
    assert found({1: None, 2: None}) is None


@pytest.mark.parametrize("wait", [
    replace(SLEEP, seconds=600.0), replace(SLEEP, timed=False), replace(SLEEP, seconds=None),
    replace(SLEEP, lock=SeenLock("py-lock", 1, "locked"))])
def test_other_waits(wait: SeenWait) -> None:
    assert found({1: LOOP, 2: LOOP}, wait) is None


def test_other_calls() -> None:
    assert found({1: LOOP, 2: LOOP}, name="futex") is None


def test_sleep_until_a_time() -> None:
    """The length of the sleep is not known, and in a core not even how much of it is left."""
    assert found({1: LOOP, 2: LOOP}, name="clock_nanosleep") == Polling(replace(INNER, line=7))
    core = replace(SLEEP, seconds=None)
    assert found({1: LOOP, 2: LOOP}, core, "clock_nanosleep", "core") == Polling(replace(INNER, line=7))
