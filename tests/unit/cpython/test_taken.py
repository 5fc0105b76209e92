from __future__ import annotations

import pytest

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.locks import LockReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.taken import TakenLock, TakenLocks
from gdbext.cpython.with_blocks import WithBlocks
from gdbext.model import PyFrame
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import VERSIONS, FakePython

ME = 0x7F00_1234_5700


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory(), str(request.param))


def reading(python: FakePython, frame: int) -> tuple[TakenLocks, list[RawFrame]]:
    objects = Objects(python.memory, python.layouts)
    frames = FrameReader(python.memory, python.layouts, objects)
    tstate = python.build.new("PyThreadState")
    python.innermost(tstate, frame)
    taken = TakenLocks(objects, frames, WithBlocks(python.memory, python.layouts, objects, frames),
                       LockReader(python.memory, python.layouts, objects))
    return taken, frames.raw(tstate)


def taken(python: FakePython, frame: int) -> list[TakenLock]:
    reader, stack = reading(python, frame)
    return reader.of(stack)


def at(line: int, function: str = "work", file: str = "/app/job.py") -> PyFrame:
    return PyFrame(function, function, file, line)


def test_locks_in_several_frames(python: FakePython) -> None:
    first, second, third = python.lock(), python.rlock(ME), python.lock()
    outer = python.in_with([python.exit_of(first), python.exit_of(second)], function="outer")
    middle = python.in_with([], previous=outer)
    assert taken(python, python.in_with([python.exit_of(third)], previous=middle)) == [
        TakenLock(third, at(101), 0, False), TakenLock(second, at(102, "outer"), 2, False),
        TakenLock(first, at(101, "outer"), 2, False)]


def test_waiter_has_taken_nothing(python: FakePython) -> None:
    assert taken(python, python.in_with([], python.exit_of(python.lock()))) == []


def test_condition(python: FakePython) -> None:
    lock = python.lock()
    frame = python.in_with([python.python_exit_of(python.condition(lock))])
    assert taken(python, frame) == [TakenLock(lock, at(101), 0, False)]


@pytest.mark.parametrize("over", ["condition", "lock"])
def test_condition_that_is_waited_for_gives_its_lock_back(python: FakePython, over: str) -> None:
    lock, other = python.lock(), python.lock()
    condition = python.condition(lock)
    manager = python.python_exit_of(condition) if over == "condition" else python.exit_of(lock)
    caller = python.in_with([manager, python.exit_of(other)])
    waiting = python.in_with([], function="wait", variables=[("self", condition)], previous=caller)
    assert [found.lock for found in taken(python, waiting)] == [other]
    # another object has a method of that name
    thing = python.instance("Job", x=python.integer(1))
    waiting = python.in_with([], function="wait", variables=[("self", thing)], previous=caller)
    assert [found.lock for found in taken(python, waiting)] == [other, lock]


def test_lock_taken_inside_of_wait(python: FakePython) -> None:
    lock = python.lock()
    waiting = python.in_with([], function="wait", variables=[("self", python.condition(lock))])
    inner = python.in_with([python.exit_of(lock)], previous=waiting)
    assert [found.lock for found in taken(python, inner)] == [lock]


def test_lock_between_processes(python: FakePython) -> None:
    handle, lock = python.build.alloc(32), python.build.alloc(64)
    python.build.put("PyObject", lock, ob_type=python.type_object("_multiprocessing.SemLock"))
    python.build.put("SemLockObject", lock, handle=handle, maxvalue=1, kind=1)
    frame = python.in_with([python.python_exit_of(python.instance("SemLock", _semlock=lock))])
    assert [found.lock for found in taken(python, frame)] == [lock]


def test_manager_of_which_nothing_is_known(python: FakePython) -> None:
    """An object that has a lock need not have taken it."""
    manager = python.instance("Session", _lock=python.lock())
    semaphore = python.instance("Semaphore", _cond=python.condition(python.lock()), _value=python.integer(1))
    assert taken(python, python.in_with([python.python_exit_of(manager), python.python_exit_of(semaphore)])) == []


@pytest.mark.parametrize("name", ["_GeneratorContextManager", "_AsyncGeneratorContextManager"])
def test_manager_that_is_a_generator(python: FakePython, name: str) -> None:
    lock, outer = python.lock(), python.lock()
    body = python.in_with([python.exit_of(lock)], function="session")
    generator = python.build.alloc(2048)
    if "gi_iframe" in python.layouts["PyGenObject"]:
        place = python.build.member("PyGenObject", generator, "gi_iframe")
        size = python.layouts["_PyInterpreterFrame"].size + 64
        python.memory.write(place, python.memory.read(body, size))
        if python.version_tuple >= (3, 14):
            top = int.from_bytes(python.memory.read(python.build.member("_PyInterpreterFrame", body, "stackpointer"),
                                                    8), "little")
            python.build.put("_PyInterpreterFrame", place, stackpointer=top - body + place)
    else:
        python.build.put("PyGenObject", generator, gi_frame=body)
    manager = python.instance(name, gen=generator)
    exit_name = "__aexit__" if "Async" in name else "__exit__"
    frame = python.in_with([python.exit_of(outer), python.python_exit_of(manager, exit_name)])
    assert taken(python, frame) == [TakenLock(lock, at(101, "session"), 0, False),
                                    TakenLock(outer, at(101), 0, False)]


def test_generator_that_is_its_own_manager(python: FakePython) -> None:
    generator = python.build.alloc(2048)
    manager = python.instance("_GeneratorContextManager", gen=generator)
    body = python.in_with([python.python_exit_of(manager)])
    if "gi_frame" in python.layouts["PyGenObject"]:
        python.build.put("PyGenObject", generator, gi_frame=body)
    assert taken(python, body) == []


def module_lock(python: FakePython) -> int:
    return python.instance("_ModuleLock", wakeup=python.lock(), owner=python.integer(ME), name=python.string("x"))


def test_import_is_told_where_it_is_imported(python: FakePython) -> None:
    lock = module_lock(python)
    importlib = "<frozen importlib._bootstrap>"
    caller = python.in_with([], function="main")
    outer = python.in_with([], previous=caller, file=importlib, function="_gcd_import")
    manager = python.python_exit_of(python.instance("_ModuleLockManager", _lock=lock))
    frame = python.in_with([manager], previous=outer, file=importlib, function="_find_and_load")
    assert taken(python, frame) == [TakenLock(lock, at(100, "main"), 0, False)]


def test_import_without_a_with_statement(python: FakePython) -> None:
    # CPython 3.15
    lock = module_lock(python)
    caller = python.in_with([], function="main")
    frame = python.in_with([], previous=caller, file="<frozen importlib._bootstrap>", function="_find_and_load",
                           variables=[("name", python.string("x")), ("lock", lock)])
    assert [(found.lock, found.at) for found in taken(python, frame)] == [(lock, at(100, "main"))]


@pytest.mark.parametrize(("names", "released"), [
    (("time", "sleep"), False), (("lock", "release"), True), (("release_lock",), True), (("__exit__",), True)])
def test_function_that_may_have_released(python: FakePython, names: tuple[str, ...], released: bool) -> None:
    found, = taken(python, python.in_with([python.exit_of(python.lock())], names=names))
    assert found.released == released


@pytest.mark.parametrize(("names", "released"), [
    ((), False), (("lock", "release"), True), (("lock", "release", "acquire"), True),
    # the first thing that it does to a lock is to wait for it
    (("lock", "acquire", "release"), False)])
def test_inner_function_that_may_have_released(python: FakePython, names: tuple[str, ...], released: bool) -> None:
    outer = python.in_with([python.exit_of(python.lock())])
    inner = python.in_with([], python.exit_of(python.lock()), previous=outer, names=names)
    reader, stack = reading(python, inner)
    found, = reader.of(stack)
    assert not found.released
    assert reader.released_inside(stack, found) == released


def test_frame_that_cannot_be_read(python: FakePython) -> None:
    lock = python.lock()
    outer = python.in_with([python.exit_of(lock)])
    broken = python.in_with([python.exit_of(python.lock())], previous=outer)
    reader, stack = reading(python, broken)
    python.build.put("PyCodeObject", stack[0].code, co_stacksize=-1)
    assert [found.lock for found in reader.of(stack)] == [lock]
