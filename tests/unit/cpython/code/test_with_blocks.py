from __future__ import annotations

import random
import time

import pytest

from gdbext.cpython.code.with_blocks import WithBlock, WithBlocks, iter_protected, iter_with_statements
from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, GdbextError
from gdbext.model import PyFrame
from tests.support import versions
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_python import VERSIONS, FakePython, cpython_layouts, exception_table, ten_byte_lines


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory(), str(request.param))


def reader(python: FakePython, frame: int) -> tuple[WithBlocks, RawFrame]:
    tstate = python.build.new("PyThreadState")
    python.innermost(tstate, frame)
    objects = Objects(python.memory, python.layouts)
    frames = FrameReader(python.memory, python.layouts, objects)
    raw, = frames.raw(tstate)
    return WithBlocks(python.memory, python.layouts, objects, frames), raw


def blocks(python: FakePython, frame: int) -> list[WithBlock]:
    withs, raw = reader(python, frame)
    return withs.of(raw)


def is_entering(python: FakePython, frame: int) -> bool:
    withs, raw = reader(python, frame)
    return withs.is_entering(raw)


def test_one_block(python: FakePython) -> None:
    lock = python.lock()
    assert blocks(python, python.in_with([python.exit_of(lock)])) == [WithBlock(lock, 101)]


def test_nested_blocks_are_innermost_first(python: FakePython) -> None:
    first, second, third = python.lock(), python.instance("Manager", x=python.integer(1)), python.lock()
    frame = python.in_with([python.exit_of(first), python.python_exit_of(second), python.exit_of(third, "__aexit__")])
    assert blocks(python, frame) == [WithBlock(third, 103), WithBlock(second, 102), WithBlock(first, 101)]


def test_frame_that_waits_at_a_with_statement_has_not_entered_it(python: FakePython) -> None:
    outer, lock = python.lock(), python.lock()
    waiting = python.exit_of(lock)
    assert blocks(python, python.in_with([], waiting)) == []
    assert blocks(python, python.in_with([python.exit_of(outer)], waiting)) == [WithBlock(outer, 101)]


def test_frame_at_a_with_statement_is_entering(python: FakePython) -> None:
    outer, lock = python.exit_of(python.lock()), python.exit_of(python.lock())
    assert is_entering(python, python.in_with([], lock))
    assert is_entering(python, python.in_with([outer], lock))
    assert not is_entering(python, python.in_with([outer])), "inside of the block"
    assert not is_entering(python, python.in_with([]))


def test_frame_without_blocks(python: FakePython) -> None:
    assert blocks(python, python.in_with([])) == []


@pytest.mark.parametrize("what", ["another method", "no method", "nothing", "garbage"])
def test_other_values_below_a_handler(python: FakePython, what: str) -> None:
    # the iterator of a loop, values below a `try` statement
    lock = python.lock()
    value = {"another method": python.exit_of(lock, "acquire")[0], "no method": lock, "nothing": 0,
             "garbage": 0xDEAD_0000}[what]
    assert blocks(python, python.in_with([(value, lock) if python.version_tuple >= (3, 14) else (value,)])) == []


@pytest.mark.parametrize("python", versions.from_minor(14), indirect=True)
def test_bound_method_is_followed_by_null(python: FakePython) -> None:
    # found on the class but not a method: followed by NULL
    lock = python.lock()
    assert blocks(python, python.in_with([(python.builtin_method("__exit__", lock), 0)])) == [WithBlock(lock, 101)]


@pytest.mark.parametrize("python", versions.before(11, VERSIONS), indirect=True)
def test_block_of_a_try_statement(python: FakePython) -> None:
    # inside a `with` block it has as many values below it; alone it proves nothing
    lock = python.lock()
    frame = python.in_with([python.exit_of(lock)])
    at = python.build.member("PyFrameObject", frame, "f_blockstack")
    python.build.put("PyTryBlock", at + python.layouts["PyTryBlock"].size, b_type=122, b_handler=30, b_level=1)
    python.build.put("PyFrameObject", frame, f_iblock=2)
    assert blocks(python, frame) == [WithBlock(lock, 101)]
    python.build.put("PyTryBlock", at, b_handler=40)
    assert blocks(python, frame) == []


@pytest.mark.parametrize("python", versions.before(11, VERSIONS), indirect=True)
@pytest.mark.parametrize("members", [{"b_type": 257}, {"b_level": 0}, {"b_level": -3}, {"b_level": 1 << 28}])
def test_other_blocks(python: FakePython, members: dict[str, int]) -> None:
    # 257 is an exception that is being handled
    frame = python.in_with([python.exit_of(python.lock())])
    python.build.put("PyTryBlock", python.build.member("PyFrameObject", frame, "f_blockstack"), **members)
    assert blocks(python, frame) == []


@pytest.mark.parametrize("python", versions.before(11, VERSIONS), indirect=True)
@pytest.mark.parametrize("count", [-1, 21, 1 << 20])
def test_impossible_number_of_blocks(python: FakePython, count: int) -> None:
    frame = python.in_with([python.exit_of(python.lock())])
    python.build.put("PyFrameObject", frame, f_iblock=count)
    with pytest.raises(CorruptStructure):
        blocks(python, frame)


@pytest.mark.parametrize("python", versions.from_minor(11), indirect=True)
def test_try_statement_in_and_around_a_block(python: FakePython) -> None:
    """The handlers of `try` statements leave as many values; the line must be that of the `with` statement."""
    lock = python.lock()
    each = 2 if python.version_tuple >= (3, 14) else 1
    table = exception_table([
        (2, 12, 80, 0), (12, 32, 70, each),  # the outer try; from line 101 the block
        (32, 42, 60, each), (60, 64, 70, each), (70, 76, 78, each + 2), (76, 80, 80, 0), (80, 84, 90, 1)])
    code = python.code("work", 100, 120, ten_byte_lines(python.version_tuple), first_traceable=0, exceptions=table)
    inside = python.fill(python.frame(code, offset=36), [], python.exit_of(lock))
    assert blocks(python, inside) == [WithBlock(lock, 101)]
    # in the handler of the inner one
    assert blocks(python, python.fill(python.frame(code, offset=60), [], python.exit_of(lock))) == [
        WithBlock(lock, 101)]
    # in the handler of the outer one the exception is stored in place of the method
    assert blocks(python, python.fill(python.frame(code, offset=82), [], (python.lock(), 0))) == []
    # the block is left, though the method is still there
    assert blocks(python, python.fill(python.frame(code, offset=50), [], python.exit_of(lock))) == []


@pytest.mark.parametrize("python", versions.from_minor(11), indirect=True)
def test_handlers_in_a_circle(python: FakePython) -> None:
    lock = python.lock()
    each = 2 if python.version_tuple >= (3, 14) else 1
    table = exception_table([(0, 30, 30, each), (30, 60, 0, each)])
    code = python.code("work", 100, 120, ten_byte_lines(python.version_tuple), first_traceable=0, exceptions=table)
    found = blocks(python, python.fill(python.frame(code, offset=10), [], python.exit_of(lock)))
    assert [block.manager for block in found] == [lock]


@pytest.mark.parametrize("python", versions.from_minor(11), indirect=True)
@pytest.mark.parametrize("depth", [1 << 14, 1 << 30, (1 << 37) - 1])
def test_handler_of_any_depth_costs_little_time(python: FakePython, depth: int) -> None:
    """No loop runs up to the depth, since the process is paused meanwhile."""
    lock = python.lock()
    each = 2 if python.version_tuple >= (3, 14) else 1
    table = exception_table([(0, 30, 60, depth), (60, 90, 90, each)])
    code = python.code("work", 100, 120, ten_byte_lines(python.version_tuple), first_traceable=0, exceptions=table)
    frame = python.fill(python.frame(code, offset=10), [], python.exit_of(lock))
    start = time.process_time()
    assert [block.manager for block in blocks(python, frame)] == [lock]
    assert time.process_time() - start < 5


@pytest.mark.parametrize("python", versions.from_minor(11), indirect=True)
def test_mutated_exception_tables_cost_little_time(python: FakePython) -> None:
    rng = random.Random(14)
    each = 2 if python.version_tuple >= (3, 14) else 1
    whole = exception_table([(2, 12, 80, 0), (12, 32, 70, each), (32, 42, 60, each), (60, 64, 70, each)])
    seconds = 0.0
    for _ in range(20):
        table = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            table[rng.randrange(len(table))] = rng.choice((0x7F, 0x40, 0xFF, rng.randrange(256)))
        table[0] |= 0x80
        code = python.code("work", 100, 120, ten_byte_lines(python.version_tuple), first_traceable=0,
                           exceptions=bytes(table) + b"\x7f" * rng.randrange(12))
        frame = python.fill(python.frame(code, offset=2 * rng.randrange(45)), [], python.exit_of(python.lock()))
        withs, raw = reader(python, frame)
        start = time.process_time()
        try:
            withs.of(raw)
            withs.is_entering(raw)
        except GdbextError:
            pass
        seconds += time.process_time() - start
    assert seconds < 5


def test_exception_tables() -> None:
    entries = [(0, 2, 40, 0), (2, 300, 40, 1), (300, 40000, 70000, 90)]
    assert [tuple(entry) for entry in iter_protected(exception_table(entries))] == entries
    assert list(iter_protected(b"")) == []


@pytest.mark.parametrize("table", [b"\x01\x02\x03\x04", b"\x80\x01", b"\x80" + b"\x7f" * 50, b"\xc0"],
                         ids=["no start", "cut", "endless number", "cut number"])
def test_damaged_exception_table(table: bytes) -> None:
    whole = exception_table([(0, 2, 40, 0)])
    assert [tuple(entry) for entry in iter_protected(whole + table)] == [(0, 2, 40, 0)]


@pytest.mark.parametrize(("version", "code", "expected"), [
    ((3, 9, 18), bytes([9, 0, 143, 20, 9, 0]), [(24, 2)]),
    ((3, 10, 13), bytes([9, 0, 143, 20, 9, 0]), [(22, 2)]),
    ((3, 9, 18), bytes([144, 1, 143, 20, 154, 4]), [(4 + 0x114, 2), (10, 4)]),
    ((3, 9, 18), bytes([144, 1, 9, 0, 143, 20]), [(26, 4)]),
    ((3, 9, 18), bytes([143]), []),
])
def test_with_statements_in_bytecode(version: tuple[int, ...], code: bytes, expected: list[tuple[int, int]]) -> None:
    assert list(iter_with_statements(code, version)) == expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(5))
def test_noise(version: str, seed: int) -> None:
    layouts, memory = cpython_layouts(version), NoiseMemory(seed)
    objects = Objects(memory, layouts)
    withs = WithBlocks(memory, layouts, objects, FrameReader(memory, layouts, objects))
    start = time.process_time()
    for i in range(100):
        raw = RawFrame(0x10000 + 8 * 97 * i, 0x20000 + 8 * 89 * i, 2 * i, PyFrame("f", "f", "f.py", 1))
        try:
            withs.of(raw)
        except GdbextError:
            continue
    assert time.process_time() - start < 20
