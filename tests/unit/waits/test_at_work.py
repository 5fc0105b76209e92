from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from gdbext.cpython.code.bytecode import Bytecode, Instruction
from gdbext.cpython.code.loops import begins_turn, is_repeated
from gdbext.cpython.frames import RawFrame
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model import PyFrame
from gdbext.threads.threads import SeenThread
from gdbext.waits.at_work import Place, find_work
from gdbext.waits.context import Context

LIBRARY = PyFrame("get", "Queue.get", "/usr/lib/python3.11/queue.py", 171)
CONNECTION = PyFrame("recv", "recv", "/usr/lib/python3.11/multiprocessing/connection.py", 250)
INNER = PyFrame("take", "take", "/app/job.py", 9)
OUTER = PyFrame("handle", "handle", "/app/job.py", 4)
SERVER = PyFrame("serve", "serve", "/usr/lib/python3.11/socketserver.py", 200)
MODULE = PyFrame("<module>", "<module>", "/app/job.py", 40)
#: A call, and a jump back to it; then the same without the jump.
LOOP = Bytecode([Instruction(2 * i, name, 0, 2 * i + 2) for i, name in enumerate(("CALL", "JUMP"))], [(1,), (0,)],
                [None] * 2)
ONCE = replace(LOOP, successors=[(1,), ()])
WAIT = SeenWait(lock=SeenLock("py-event", 1, "not set"))


def found(*functions: Bytecode | None, wait: SeenWait = WAIT, kind: str = "live",
          library: PyFrame = LIBRARY) -> Place:
    """What `find_work` finds where the functions of the frames are these, innermost first."""
    frames = (library, INNER, OUTER, SERVER, MODULE)
    stack = [RawFrame(0, i, 0, frame) for i, frame in enumerate(frames[:len(functions)])]

    class Reader:
        def repeats(self, code: int, offset: int) -> bool | None:
            function = functions[code]
            return is_repeated(function, offset) if function is not None else None

        def begins_turn(self, code: int, offset: int) -> bool:
            function = functions[code]
            return function is not None and begins_turn(function, offset)

    Reader.functions = Reader()  # type: ignore[attr-defined]

    class Locks:
        def stacks(self, number: int) -> list[tuple[Reader, list[RawFrame]]]:
            return [(Reader(), stack)]

    class Target:
        pass

    class Made:
        python_locks, target = Locks(), Target()

    Made.target.kind = kind  # type: ignore[attr-defined]

    class Seen:
        number = 1

    return find_work(cast(SeenThread, cast(Any, Seen())), wait, cast(Context, cast(Any, Made())))


def test_loops_of_libraries_do_not_count() -> None:
    assert found(LOOP, ONCE, ONCE, LOOP) == Place(OUTER)


def test_function_that_a_library_has_called() -> None:
    """As in a worker that was forked: the frames of its parent are below."""
    assert found(ONCE, ONCE, ONCE, LOOP, ONCE) == Place(OUTER)


@pytest.mark.parametrize("functions", [
    (ONCE, LOOP, ONCE, ONCE), (ONCE, ONCE, LOOP, ONCE), (ONCE, None, ONCE, ONCE), (ONCE, ONCE, None, ONCE)])
def test_loop_or_unknown_function_of_the_program(functions: tuple[Bytecode | None, ...]) -> None:
    assert found(*functions).at_work is None


@pytest.mark.parametrize("wait", [replace(WAIT, timed=True), SeenWait()])
def test_waits_that_end_or_are_not_known(wait: SeenWait) -> None:
    assert found(ONCE, ONCE, ONCE, ONCE, wait=wait) == Place()


def test_timeout_of_hours_or_of_unknown_length_in_a_core() -> None:
    for wait, kind in ((replace(WAIT, timed=True, seconds=7200.0), "live"), (replace(WAIT, timed=True), "core")):
        assert found(ONCE, ONCE, ONCE, ONCE, wait=wait, kind=kind) == Place(OUTER)
    assert found(ONCE, ONCE, ONCE, ONCE, wait=replace(WAIT, timed=True, seconds=30.0), kind="core") == Place()


def test_innermost_function_with_a_loop() -> None:
    assert found(ONCE, ONCE, LOOP, ONCE) == Place(in_loop=OUTER)
    assert found(ONCE, LOOP, LOOP, ONCE) == Place(in_loop=INNER)
    # a library that only receives
    assert found(ONCE, ONCE, LOOP, ONCE, library=CONNECTION) == Place(in_loop=OUTER, takes_next=True)
    # what an unreadable function does is not known
    assert found(ONCE, None, LOOP, ONCE) == Place()
