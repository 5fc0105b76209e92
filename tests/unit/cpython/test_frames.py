from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from gdbext.cpython import frames as frames_module
from gdbext.cpython.frames import FrameReader, PyStack, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError, MemoryUnreadable
from gdbext.model import Columns, PyFrame
from tests.support import combinations, versions
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_python import VERSIONS, Call, FakePython, cpython_layouts, ten_byte_lines

STACK = 0x7F00_0000_0000


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory({STACK: bytes(0x1000)}), str(request.param))


def thread(python: FakePython, calls: Sequence[Call] = ()) -> int:
    tstate = python.build.new("PyThreadState")
    python.stack(tstate, calls)
    return tstate


def read(python: FakePython, tstate: int) -> PyStack:
    return FrameReader(python.memory, python.layouts, Objects(python.memory, python.layouts)).stack(tstate)


def frame(name: str, line: int) -> PyFrame:
    return PyFrame(name, name, "/app/job.py", line)


def innermost(python: FakePython, tstate: int, at: int, cframe: int | None = None) -> None:
    """Make a frame the innermost one of a thread."""
    if "current_frame" in python.layouts["PyThreadState"]:
        python.build.put("PyThreadState", tstate, current_frame=at)
    elif python.version_tuple >= (3, 11):
        cframe = python.build.new("_PyCFrame") if cframe is None else cframe
        root = python.build.member("PyThreadState", tstate, "root_cframe")
        python.build.put("_PyCFrame", cframe, current_frame=at, previous=0 if cframe == root else root)
        python.build.put("PyThreadState", tstate, cframe=cframe)
    else:
        python.build.put("PyThreadState", tstate, frame=at)


def previous_member(python: FakePython) -> str:
    return "previous" if python.version_tuple >= (3, 11) else "f_back"


def frame_struct(python: FakePython) -> str:
    return "_PyInterpreterFrame" if python.version_tuple >= (3, 11) else "PyFrameObject"


def test_two_native_calls(python: FakePython) -> None:
    calls = [Call((("call_driver", 41), ("work", 17)), STACK + 0x100), Call((("main", 90),), STACK + 0x800)]
    tstate = thread(python, calls)
    stack = read(python, tstate)
    assert stack.frames == (frame("call_driver", 41), frame("work", 17), frame("main", 90))
    assert stack.problem is None
    if python.version_tuple >= (3, 11):
        assert stack.calls == ((2, STACK + 0x100), (1, STACK + 0x800))
    else:  # one call, one frame
        assert stack.calls == ((1, None), (1, None), (1, None))


def test_no_python_on_the_stack(python: FakePython) -> None:
    assert read(python, thread(python)) == PyStack((), ())


@pytest.mark.parametrize("python", versions.from_minor(12), indirect=True)
def test_native_call_that_runs_no_frame_yet(python: FakePython) -> None:
    # before 3.12 an eval call has a frame from the start
    tstate = thread(python, [Call((), STACK + 0x100), Call((("main", 90),), STACK + 0x800)])
    assert read(python, tstate) == PyStack((frame("main", 90),), ((0, STACK + 0x100), (1, STACK + 0x800)))


def test_qualified_name(python: FakePython) -> None:
    tstate = python.build.new("PyThreadState")
    innermost(python, tstate, python.frame(python.code("work", 1, qualified_name="Pool.work")))
    expected = "Pool.work" if python.version_tuple >= (3, 11) else "work"
    assert [found.qualified_name for found in read(python, tstate).frames] == [expected]


@pytest.mark.parametrize(("offset", "line"), [(0, 7), (4, 8), (8, 10)])
def test_line_of_the_current_instruction(python: FakePython, offset: int, line: int) -> None:
    table = {True: bytes([0x80 | 13 << 3 | 1, 0, 0x80 | 13 << 3 | 1, 2, 0x80 | 13 << 3 | 1, 4]),
             False: bytes([0, 0, 4, 1, 4, 2])}[python.version_tuple >= (3, 11)]
    if python.version_tuple[:2] == (3, 10):
        table = bytes([4, 0, 4, 1, 4, 2])
    tstate = python.build.new("PyThreadState")
    innermost(python, tstate, python.frame(python.code("f", 7, 12, table, first_traceable=0), offset=offset))
    assert [found.line for found in read(python, tstate).frames] == [line]


@pytest.mark.parametrize("python", versions.from_minor(11), indirect=True)
@pytest.mark.parametrize(("entry", "line", "columns"), [
    (b"\xf0\x04\x06\x09\x05", 9, Columns(8, 4, 15)),  # several lines
    (b"\xd0\x08\x0c", 7, Columns(8, 12, 7)),  # two bytes of columns
    (b"\x88\x25", 7, Columns(10, 15, 7)),  # one byte
    (b"\xe8\x02", 8, None),  # none
    (b"\xf0\x04\x06\x09\x00", 9, None),  # no end
    (b"\xd0\x08", 7, None),  # cut
])
def test_columns_of_the_current_instruction(python: FakePython, entry: bytes, line: int,
                                            columns: Columns | None) -> None:
    tstate = python.build.new("PyThreadState")
    innermost(python, tstate, python.frame(python.code("f", 7, 2, entry, first_traceable=0), offset=0))
    assert read(python, tstate).frames == (PyFrame("f", "f", "/app/job.py", line, columns),)


def test_line_of_a_frame_before_its_first_instruction(python: FakePython) -> None:
    tstate = python.build.new("PyThreadState")
    code = python.code("f", 7, first_traceable=0)
    innermost(python, tstate, python.frame(code, offset=-2 if python.version_tuple >= (3, 10) else -1))
    stack = read(python, tstate)
    assert stack.problem is None
    # since 3.11 CPython does not show such a frame either
    assert stack.frames == ((frame("f", 7),) if python.version_tuple < (3, 11) else ())


@pytest.mark.parametrize("python", versions.from_minor(11), indirect=True)
def test_frame_that_has_not_begun_to_run_is_left_out(python: FakePython) -> None:
    # before 3.11 a frame has no beginning of its own
    tstate = python.build.new("PyThreadState")
    outer = python.frame(python.code("outer", 5))
    code = python.code("new", 7, first_traceable=3)
    innermost(python, tstate, python.frame(code, outer, offset=4))
    assert [found.function for found in read(python, tstate).frames] == ["outer"]
    # a generator's frame is shown from its creation on
    innermost(python, tstate, python.frame(code, outer, offset=4, owner=1))
    assert [found.function for found in read(python, tstate).frames] == ["new", "outer"]


def test_chain_of_frames_with_a_loop(python: FakePython) -> None:
    tstate = python.build.new("PyThreadState")
    frames = [python.frame(python.code(f"f{i}", i + 1)) for i in range(3)]
    for here, there in zip(frames, [*frames[1:], frames[1]]):
        python.build.put(frame_struct(python), here, **{previous_member(python): there})
    innermost(python, tstate, frames[0])
    stack = read(python, tstate)
    assert [found.function for found in stack.frames] == ["f0", "f1", "f2"]
    assert stack.problem == "the Python stack has a loop"
    assert sum(count for count, _ in stack.calls) == 3


def test_frame_that_is_its_own_caller(python: FakePython) -> None:
    tstate = python.build.new("PyThreadState")
    at = python.frame(python.code("f", 1))
    python.build.put(frame_struct(python), at, **{previous_member(python): at})
    innermost(python, tstate, at)
    assert read(python, tstate).problem == "the Python stack has a loop"


def test_deep_recursion_is_cut(python: FakePython, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_module, "MAX_FRAMES", 50)
    code, at = python.code("f", 1), 0
    for _ in range(60):
        at = python.frame(code, at)
    tstate = python.build.new("PyThreadState")
    innermost(python, tstate, at)
    stack = read(python, tstate)
    assert len(stack.frames) == 50
    assert stack.problem == "cut after 50 Python frames"


def test_recursion_that_is_not_cut_has_no_problem(python: FakePython, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_module, "MAX_FRAMES", 50)
    code, at = python.code("f", 1), 0
    for _ in range(50):
        at = python.frame(code, at)
    tstate = python.build.new("PyThreadState")
    innermost(python, tstate, at)
    assert read(python, tstate).problem is None


@pytest.mark.parametrize("broken", ["previous", "code", "no code object", "name", "file", "line table",
                                    "name unreadable"])
def test_damage_ends_the_walk_with_a_reason(python: FakePython, broken: str) -> None:
    code, no_string = python.code("bad", 3), python.string("x")
    python.build.put("PyASCIIObject", no_string, state_kind=0)
    if broken == "no code object":
        code = python.string("not code")
    elif broken == "name":
        python.build.put("PyCodeObject", code, co_name=no_string)
    elif broken == "name unreadable":
        python.build.put("PyCodeObject", code, co_name=0xDEAD_0000)
    elif broken == "file":
        python.build.put("PyCodeObject", code, co_filename=no_string)
    elif broken == "line table":
        python.build.put("PyCodeObject", code, co_linetable=0x10)
    outer = python.frame(code, 0)
    if broken == "code":
        member = "f_executable" if python.version_tuple >= (3, 13) else "f_code"
        python.build.put(frame_struct(python), outer, **{member: 0x10})
    if broken == "previous":
        outer = 0xDEAD_0000
    tstate = python.build.new("PyThreadState")
    innermost(python, tstate, python.frame(python.code("good", 1), outer))
    stack = read(python, tstate)
    assert [found.function for found in stack.frames] == ["good"]
    assert stack.problem


@pytest.mark.parametrize("python", versions.from_minor(11), indirect=True)
def test_instruction_outside_the_code(python: FakePython) -> None:
    # before 3.11 a frame has an offset, not a pointer
    for offset in (-100, 22, 1 << 40):
        tstate = python.build.new("PyThreadState")
        innermost(python, tstate, python.frame(python.code("f", 1, 20), offset=offset))
        stack = read(python, tstate)
        assert stack.frames == ()
        assert stack.problem is not None
        assert "outside" in stack.problem


@pytest.mark.parametrize("python", versions.from_minor(11), indirect=True)
@pytest.mark.parametrize("units", [-1, 1 << 40])
def test_code_of_impossible_size(python: FakePython, units: int) -> None:
    # before 3.11 the code is an object of its own
    code = python.code("f", 1)
    python.build.put("PyVarObject", code, ob_size=units)
    tstate = python.build.new("PyThreadState")
    innermost(python, tstate, python.frame(code))
    assert read(python, tstate).frames == ()


def test_unreadable_thread_state(python: FakePython) -> None:
    with pytest.raises(MemoryUnreadable):
        read(python, 0xDEAD_0000)


def test_c_frames_with_a_loop() -> None:
    python = FakePython(FakeMemory(), "3.11.7")
    tstate = python.build.new("PyThreadState")
    at = [python.build.new("_PyCFrame") for _ in range(3)]
    for here, there in zip(at, [*at[1:], at[1]]):
        python.build.put("_PyCFrame", here, previous=there)
    python.build.put("PyThreadState", tstate, cframe=at[0])
    start = time.process_time()
    assert read(python, tstate).problem is not None
    assert time.process_time() - start < 5


def test_sentinel_of_3_15_is_not_a_call() -> None:
    python = FakePython(FakeMemory({STACK: bytes(0x1000)}), "3.15.2")
    tstate = thread(python, [Call((("main", 90),), STACK + 0x100)])
    assert read(python, tstate).calls == ((1, STACK + 0x100),)


def test_code_is_decoded_once_for_many_threads(python: FakePython) -> None:
    code = python.code("work", 3)
    reader = FrameReader(python.memory, python.layouts, Objects(python.memory, python.layouts))
    threads = []
    for _ in range(20):
        tstate = python.build.new("PyThreadState")
        innermost(python, tstate, python.frame(code))
        threads.append(tstate)
    reader.stack(threads[0])
    python.memory.reads.clear()
    assert all(reader.stack(tstate).frames == (frame("work", 3),) for tstate in threads[1:])
    assert len(python.memory.reads) <= 5 * 19


@pytest.mark.parametrize("version", versions.from_minor(14))
@pytest.mark.parametrize(("damage", "line"), [(None, 102), ("no copies", None), ("huge", None), ("unmapped", None)])
def test_copies_of_bytecode_of_threads(version: str, damage: str | None, line: int | None) -> None:
    """In free-threaded builds each thread may run a copy of a function's instructions of its own."""
    python = FakePython(FakeMemory({STACK: bytes(0x1000)}), version, build="free-threaded")
    code = python.code("work", 100, 120, ten_byte_lines(python.version_tuple), first_traceable=0)
    copies = [code + python.layouts["PyCodeObject"].offset("co_code_adaptive"), 0, python.build.alloc(120)]
    array = python.build.alloc(64)
    at = array + python.layouts["_PyCodeArray"].offset("entries")
    python.build.put("_PyCodeArray", array, size=1 << 40 if damage == "huge" else len(copies))
    python.memory.u64(at, *copies)
    tlbc = {"no copies": 0, "unmapped": 0xDEAD_0000}.get(damage or "", array)
    python.build.put("PyCodeObject", code, co_tlbc=tlbc)
    tstate = thread(python)
    at = python.frame(code)
    python.build.put("_PyInterpreterFrame", at, instr_ptr=copies[2] + 24)
    innermost(python, tstate, at)
    stack = read(python, tstate)
    assert [found.line for found in stack.frames] == ([line] if line is not None else [])
    assert (stack.problem is None) == (line is not None)
    raws = reader_of(python).raw(tstate)
    assert [raw.offset for raw in raws] == ([24] if line is not None else [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", combinations.seeds(10))
@pytest.mark.slow
def test_noise(version: str, seed: int) -> None:
    layouts = cpython_layouts(version)
    memory = NoiseMemory(seed)
    reader = FrameReader(memory, layouts, Objects(memory, layouts))
    start = time.process_time()
    for i in range(50):
        try:
            stack = reader.stack(0x10000 + 8 * 97 * i)
        except GdbextError:
            continue
        assert len(stack.frames) <= frames_module.MAX_FRAMES
    assert time.process_time() - start < 20


# -- frames with their variables ------------------------------------------------------------------------------

def reader_of(python: FakePython) -> FrameReader:
    return FrameReader(python.memory, python.layouts, Objects(python.memory, python.layouts))


def test_raw_frames(python: FakePython) -> None:
    tstate = thread(python, [Call((("call_driver", 41), ("work", 17)), STACK + 0x100),
                             Call((("main", 90),), STACK + 0x800)])
    reader = reader_of(python)
    found = reader.raw(tstate)
    assert tuple(raw.frame for raw in found) == reader.stack(tstate).frames
    assert {raw.offset for raw in found} == {8}
    objects = Objects(python.memory, python.layouts)
    assert {objects.type_name(raw.code) for raw in found} == {"code"}
    assert [reader.raw(tstate, limit) for limit in (0, 1, 2, 5)] == [[], found[:1], found[:2], found]


def test_raw_frames_end_at_unreadable_memory(python: FakePython) -> None:
    tstate = python.build.new("PyThreadState")
    at = python.frame(python.code("good", 1), 0xDEAD_0000)
    python.innermost(tstate, at)
    assert [raw.address for raw in reader_of(python).raw(tstate)] == [at]
    python.build.put(frame_struct(python), at, **{previous_member(python): at})
    assert [raw.address for raw in reader_of(python).raw(tstate)] == [at]
    with pytest.raises(MemoryUnreadable):
        reader_of(python).raw(0xDEAD_0000)


def one_raw(python: FakePython, code: int, variables: Sequence[int], stack: Sequence[int] = ()) -> RawFrame:
    tstate = python.build.new("PyThreadState")
    python.innermost(tstate, python.fill(python.frame(code), variables, stack, 0x1234))
    raw, = reader_of(python).raw(tstate)
    return raw


def test_variables(python: FakePython) -> None:
    one, two = python.integer(1), python.integer(2)
    code = python.code("f", 1, variables=("self", "unset", "count"), cells=("shared", "empty"))
    raw = one_raw(python, code, [one, 0, two, python.cell(one), python.cell(0)])
    reader = reader_of(python)
    assert reader.variables(raw) == [("self", one), ("count", two), ("shared", one)]
    assert (reader.variable(raw, "shared"), reader.variable(raw, "unset"), reader.variable(raw, "none")) == (one, 0, 0)


def test_variable_before_it_is_put_into_a_cell(python: FakePython) -> None:
    value = python.integer(1)
    raw = one_raw(python, python.code("f", 1, cells=("shared",)), [value])
    assert reader_of(python).variables(raw) == [("shared", value)]


def test_argument_that_was_moved_into_a_cell() -> None:
    # up to 3.10 there are two places of the name, and the first one is empty
    python = FakePython(FakeMemory(), "3.9.18")
    value = python.integer(1)
    raw = one_raw(python, python.code("f", 1, variables=("self",), cells=("self",)), [0, python.cell(value)])
    assert reader_of(python).variable(raw, "self") == value


def test_small_numbers_are_not_objects() -> None:
    python = FakePython(FakeMemory(), "3.14.10")
    value = python.integer(5)
    raw = one_raw(python, python.code("f", 1, variables=("a", "b", "c")), [5 << 2 | 3, value | 1, value])
    assert reader_of(python).variables(raw) == [("b", value), ("c", value)]


def test_value_stack(python: FakePython) -> None:
    values = [python.integer(i) for i in range(3)]
    raw = one_raw(python, python.code("f", 1, variables=("a",), stack_size=5), [values[0]], [*values, 0])
    reader = reader_of(python)
    # without a recorded number the whole capacity is returned
    expected = (*values, 0) if python.version_tuple >= (3, 14) else (*values, 0, 0)
    assert reader.stack_values(raw) == expected
    assert reader.lowest_values(raw, 2) == tuple(values[:2])
    assert reader.lowest_values(raw, 99)[:4] == (*values, 0)


def test_live_values_of_a_frame_that_has_called(python: FakePython) -> None:
    values = [python.integer(i) for i in range(3)]
    raw = one_raw(python, python.code("f", 1, variables=("a",), stack_size=5), [values[0]], values)
    at = raw.address
    known = python.layouts[frame_struct(python)]
    if "stacktop" in known:
        python.build.put(frame_struct(python), at, stacktop=1 + 2)
    elif "stackpointer" in known:
        python.build.put(frame_struct(python), at, stackpointer=python.build.member(
            frame_struct(python), at, "localsplus") + 8 * 3)
    elif "f_stackdepth" in known:
        python.build.put(frame_struct(python), at, f_stackdepth=2)
    else:
        python.build.put(frame_struct(python), at, f_stacktop=python.build.member(
            frame_struct(python), at, "f_localsplus") + 8 * 3)
    assert reader_of(python).stack_values(raw) == tuple(values[:2])


@pytest.mark.parametrize("members", [{"co_stacksize": 1 << 20}, {"co_stacksize": -1}, {"many": 1 << 20}])
def test_frame_of_impossible_size(python: FakePython, members: dict[str, int]) -> None:
    code = python.code("f", 1, variables=("a",))
    variables = "co_nlocalsplus" if "co_nlocalsplus" in python.layouts["PyCodeObject"] else "co_nlocals"
    python.build.put("PyCodeObject", code, **{variables if name == "many" else name: value
                                              for name, value in members.items()})
    raw = one_raw(python, code, [0])
    for read in (reader_of(python).variables, reader_of(python).stack_values):
        with pytest.raises(GdbextError):
            read(raw)


def test_globals_and_names(python: FakePython) -> None:
    raw = one_raw(python, python.code("f", 1, names=("lock", "acquire", "release")), [])
    reader = reader_of(python)
    assert reader.globals(raw) == 0x1234
    assert list(reader.names_of(raw.code).items()) == [("lock", 0), ("acquire", 1), ("release", 2)]


def test_frame_of_a_generator(python: FakePython) -> None:
    generator = python.build.alloc(1024)
    code = python.code("gen", 30, variables=("a",))
    value = python.integer(1)
    if "gi_iframe" in python.layouts["PyGenObject"]:
        at = python.frame(code, owner=1, at=python.build.member("PyGenObject", generator, "gi_iframe"))
    else:
        at = python.frame(code)
        python.build.put("PyGenObject", generator, gi_frame=at)
    python.fill(at, [value])
    reader = reader_of(python)
    raw = reader.generator(generator)
    assert raw is not None
    assert (raw.address, raw.frame) == (at, frame("gen", 30))
    assert reader.variables(raw) == [("a", value)]
    assert reader.generator(0xDEAD_0000) is None
    assert reader.generator(python.build.alloc(1024)) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", combinations.seeds(5))
def test_noise_in_variables(version: str, seed: int) -> None:
    layouts = cpython_layouts(version)
    memory = NoiseMemory(seed)
    reader = FrameReader(memory, layouts, Objects(memory, layouts))
    ways: tuple[Callable[[RawFrame], object], ...] = (
        reader.variables, reader.stack_values, lambda raw: reader.names_of(raw.code), reader.globals,
        lambda raw: reader.lowest_values(raw, 9))
    start = time.process_time()
    for i in range(50):
        raw = RawFrame(0x10000 + 8 * 97 * i, 0x20000 + 8 * 89 * i, 8, frame("f", 1))
        reader.generator(raw.address)
        for way in ways:
            try:
                way(raw)
            except GdbextError:
                continue
    assert time.process_time() - start < 20
