from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from gdbext.arch.protocol import Syscall
from gdbext.cpython.code.bytecode import Bytecode, Instruction
from gdbext.cpython.code.lock_calls import Names, Place
from gdbext.cpython.code.loops import begins_turn, is_repeated
from gdbext.cpython.frames import RawFrame
from gdbext.cpython.values import Limits
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model import Polling, PyFrame
from gdbext.model.reasons import because, joined
from gdbext.threads.threads import SeenThread
from gdbext.waits.context import Context
from gdbext.waits.polling import asks_again, find_polling

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

    version_tuple = (3, 11)

    def __init__(self, functions: dict[int, Bytecode | None]) -> None:
        self.functions = self
        self.frames = self.layouts = self
        self._functions = functions

    def bytecode(self, code: int) -> Bytecode | None:
        """See `Functions.bytecode`."""
        return self._functions[code]

    def repeats(self, code: int, offset: int) -> bool | None:
        """See `Functions.repeats`."""
        function = self._functions[code]
        return is_repeated(function, offset) if function is not None else None

    def begins_turn(self, code: int, offset: int) -> bool:
        """See `Functions.begins_turn`."""
        function = self._functions[code]
        return function is not None and begins_turn(function, offset)

    def names(self, code: int) -> Names:
        """See `Functions.names`."""
        return Names(("exists", "read", "update", "ready"), (), 0)

    def line(self, code: int, offset: int) -> int | None:
        """See `FrameReader.line`."""
        return 7 if offset == 0 else None


def found(functions: dict[int, Bytecode | None], wait: SeenWait = SLEEP, name: str = "nanosleep",
          kind: str = "live") -> Polling | None:
    seen, context = scene(functions, name, kind, INNER, OUTER)
    return find_polling(seen, wait, context)


def scene(functions: dict[int, Bytecode | None], name: str, kind: str, *frames: PyFrame) -> tuple[SeenThread, Context]:
    """A thread in a system call with these frames, innermost first."""
    stack = [RawFrame(0, i, 2, frame) for i, frame in enumerate(frames, 1)]

    class Locks:
        shows_values = False

        def stacks(self, number: int) -> list[tuple[Reader, list[RawFrame]]]:
            return [(Reader(functions), stack)]

    class Target:
        proc = None

    class Python:
        pythons = ()

    class Made:
        python_locks, target, threads, python = Locks(), Target(), (1,), Python()

    Made.target.kind = kind  # type: ignore[attr-defined]

    class Seen:
        number, call = 1, Syscall(0, name, (), True)

    return cast(SeenThread, cast(Any, Seen())), cast(Context, cast(Any, Made()))


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


DRIVER = PyFrame("wait_conn", "wait_conn", "/usr/lib/python3/dist-packages/psycopg/waiting.py", 149)
ASKED = SeenLock("descriptor", 4, "waiting for events", why=joined([
    because("watches", watched=(), count=1), because("unanswered", seconds=3)]))


@pytest.mark.parametrize(("frame", "function", "lock", "again"), [
    (DRIVER, ENDLESS, ASKED, True),
    (DRIVER, replace(LOOP, successors=[(1,), (2,), (3,), ()]), ASKED, False),
    # a loop of the program's own may do something else meanwhile
    (INNER, ENDLESS, ASKED, False),
    (DRIVER, ENDLESS, replace(ASKED, why=None), False)])
def test_library_that_waits_again_for_an_answer(frame: PyFrame, function: Bytecode, lock: SeenLock,
                                                again: bool) -> None:
    seen, context = scene({1: function, 2: ENDLESS}, "epoll_wait", "live", frame, INNER)
    assert asks_again(seen, lock, context) is again


LIBRARY = PyFrame("retrieve", "retrieve", "/usr/lib/python3/site-packages/joblib/parallel.py", 5)


def test_loop_of_a_library_that_the_program_has_called() -> None:
    seen, context = scene({1: LOOP, 2: ENDLESS}, "nanosleep", "live", LIBRARY, OUTER)
    assert find_polling(seen, SLEEP, context) is None
    assert find_polling(seen, SLEEP, context, holds=True) == Polling(replace(LIBRARY, line=7), 0.5)


def test_loop_of_a_library_around_the_program_is_a_service() -> None:
    seen, context = scene({1: ENDLESS, 2: LOOP}, "nanosleep", "live", INNER, LIBRARY)
    assert find_polling(seen, SLEEP, context, holds=True) is None


def test_loop_that_reads_data() -> None:
    """The names of the attributes are those of `Reader.names`."""
    read = [Instruction(0, "LOAD_METHOD", 1, 2), *LOOP.instructions[1:]]
    tested = Bytecode([Instruction(2 * i, name, argument, 2 * i + 2) for i, (name, argument) in enumerate((
        ("LOAD_METHOD", 0), ("POP_JUMP_IF_FALSE", 4), ("CALL", 0), ("JUMP_BACKWARD", 0), ("RETURN", 0)))],
        [(1,), (2, 4), (3,), (0,), ()], [None] * 5)
    assert found({1: tested, 2: ENDLESS}, name="nanosleep") is not None
    taking = replace(tested, instructions=[*read[:1], *tested.instructions[1:]])
    assert found({1: taking, 2: LOOP}, name="nanosleep") is None


#: The names of `Reader.names` by index.
EXISTS, READ, UPDATE, READY = range(4)


def looping(*body: tuple[str, int], tests: tuple[tuple[str, int], ...] = (("LOAD_METHOD", EXISTS), ("CALL", 0)),
            ) -> Bytecode:
    """``while tests: body; sleep()``, where the instruction at offset 2 is in the loop."""
    loop = [*tests, ("POP_JUMP_IF_FALSE", 0), *body, ("CALL", 0), ("POP_TOP", 0), ("JUMP_BACKWARD", 0)]
    successors: list[tuple[int, ...]] = [*((i + 1,) for i in range(len(loop))), ()]
    successors[len(tests)] = (len(tests) + 1, len(loop))
    successors[len(loop) - 1] = (0,)
    return Bytecode([Instruction(2 * i, name, argument, 2 * i + 2)
                     for i, (name, argument) in enumerate([*loop, ("RETURN_VALUE", 0)])], successors,
                    [None] * len(successors))


FLAG = (("LOAD_NAME", READY),)


@pytest.mark.parametrize(("function", "module", "threads", "polls"), [
    (looping(), False, 1, True), (looping(), False, 2, True),
    # it does something else, too
    (looping(("LOAD_METHOD", UPDATE), ("CALL", 0), ("POP_TOP", 0)), False, 1, False),
    # that returns what the condition tests, or the next datum
    (looping(("LOAD_METHOD", UPDATE), ("CALL", 0), ("STORE_NAME", READY), tests=FLAG), True, 2, True),
    (looping(("LOAD_METHOD", READ), ("CALL", 0), ("STORE_NAME", READY), tests=FLAG), True, 2, False),
    # a flag that another thread may change
    (looping(tests=FLAG), True, 1, True), (looping(tests=FLAG), True, 2, False)])
def test_loop_that_works(function: Bytecode, module: bool, threads: int, polls: bool) -> None:
    frame = replace(INNER, function="<module>") if module else INNER
    seen, context = scene({1: function, 2: ENDLESS}, "nanosleep", "live", frame, OUTER)
    cast(Any, context).threads = (1,) * threads
    assert (find_polling(seen, SLEEP, context) is not None) is polls


def test_lock_file_of_a_package() -> None:
    package = replace(LIBRARY, file="/usr/lib/python3/site-packages/filelock/_api.py")
    seen, context = scene({1: LOOP, 2: ENDLESS}, "nanosleep", "live", package, OUTER)
    assert find_polling(seen, SLEEP, context) == Polling(replace(package, line=7), 0.5)


@pytest.mark.parametrize(("begin", "polls"), [("5.5", False), ("2.0", True), ("soon", True)])
def test_lock_file_that_is_in_use_for_a_moment(begin: str, polls: bool) -> None:
    """The time is 6 s; ``perf_counter`` was `begin` at the first attempt."""
    class Values:
        def type_name(self, value: int) -> str:
            return "float" if begin != "soon" else "str"

        def value(self, raw: RawFrame, place: Place) -> int:
            return 9 if place.variable == "start_time" else 0

        def text(self, value: int, limits: Limits) -> str:
            return begin

    class Proc:
        def now(self, clock: int) -> float:
            return 6.0

    package = replace(LIBRARY, file="/usr/lib/python3/site-packages/filelock/_api.py")
    seen, context = scene({1: LOOP, 2: ENDLESS}, "nanosleep", "live", package, OUTER)
    made = cast(Any, context)
    (reader, _), = stacks = made.python_locks.stacks(1)
    reader.places = reader.values = Values()
    made.python_locks.stacks = lambda number: stacks
    made.target.proc = Proc()
    assert (find_polling(seen, SLEEP, context) is not None) is polls
