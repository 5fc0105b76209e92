from __future__ import annotations

import pytest

from gdbext.cpython.code.acquired import LockFlows
from gdbext.cpython.code.functions import Functions
from gdbext.cpython.code.with_blocks import WithBlocks
from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.locking.locks import LockReader
from gdbext.cpython.locking.places import PlaceReader
from gdbext.cpython.locking.taken import TakenLock, TakenLocks
from gdbext.cpython.objects import Objects
from gdbext.cpython.values import ValueReader
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
                       LockReader(python.memory, python.layouts, objects),
                       LockFlows(Functions(python.layouts, objects, frames), frames),
                       PlaceReader(objects, frames, ValueReader(python.memory, python.layouts, objects)))
    return taken, frames.raw(tstate)


def taken(python: FakePython, frame: int) -> list[TakenLock]:
    reader, stack = reading(python, frame)
    return reader.of(stack)


def at(line: int, function: str = "work", file: str = "/app/job.py") -> PyFrame:
    return PyFrame(function, function, file, line)


def sure(lock: int, at: PyFrame) -> TakenLock:
    return TakenLock(lock, at, False, False)


def test_locks_in_several_frames(python: FakePython) -> None:
    first, second, third = python.lock(), python.rlock(ME), python.lock()
    outer = python.in_with([python.exit_of(first), python.exit_of(second)], function="outer")
    middle = python.in_with([], previous=outer)
    assert taken(python, python.in_with([python.exit_of(third)], previous=middle)) == [
        sure(third, at(101)), sure(second, at(102, "outer")), sure(first, at(101, "outer"))]


def test_waiting_thread_has_taken_nothing(python: FakePython) -> None:
    assert taken(python, python.in_with([], python.exit_of(python.lock()))) == []


def test_condition(python: FakePython) -> None:
    lock = python.lock()
    frame = python.in_with([python.python_exit_of(python.condition(lock))])
    assert taken(python, frame) == [sure(lock, at(101))]


@pytest.mark.parametrize("over", ["condition", "lock"])
def test_condition_wait_releases_the_lock(python: FakePython, over: str) -> None:
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


def test_lock_taken_inside_wait(python: FakePython) -> None:
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


def test_unknown_context_manager(python: FakePython) -> None:
    """An object with a lock attribute has not necessarily taken the lock."""
    manager = python.instance("Session", _lock=python.lock())
    semaphore = python.instance("Semaphore", _cond=python.condition(python.lock()), _value=python.integer(1))
    assert taken(python, python.in_with([python.python_exit_of(manager), python.python_exit_of(semaphore)])) == []


@pytest.mark.parametrize("name", ["_GeneratorContextManager", "_AsyncGeneratorContextManager"])
def test_manager_that_is_a_generator(python: FakePython, name: str) -> None:
    lock, outer = python.lock(), python.lock()
    body = python.in_with([python.exit_of(lock)], function="session", variables=[("taken", outer)])
    manager = python.instance(name, gen=python.generator_of(body))
    exit_name = "__aexit__" if "Async" in name else "__exit__"
    frame = python.in_with([python.exit_of(outer), python.python_exit_of(manager, exit_name)])
    assert taken(python, frame) == [sure(lock, at(101, "session")), sure(outer, at(101))]


def test_generator_that_is_its_own_manager(python: FakePython) -> None:
    generator = python.build.alloc(2048)
    manager = python.instance("_GeneratorContextManager", gen=generator)
    body = python.in_with([python.python_exit_of(manager)])
    if "gi_frame" in python.layouts["PyGenObject"]:
        python.build.put("PyGenObject", generator, gi_frame=body)
    assert taken(python, body) == []


def module_lock(python: FakePython) -> int:
    return python.instance("_ModuleLock", wakeup=python.lock(), owner=python.integer(ME), name=python.string("x"))


def test_import_lock_is_reported_at_the_importing_frame(python: FakePython) -> None:
    lock = module_lock(python)
    importlib = "<frozen importlib._bootstrap>"
    caller = python.in_with([], function="main")
    outer = python.in_with([], previous=caller, file=importlib, function="_gcd_import")
    manager = python.python_exit_of(python.instance("_ModuleLockManager", _lock=lock))
    frame = python.in_with([manager], previous=outer, file=importlib, function="_find_and_load")
    assert taken(python, frame) == [sure(lock, at(100, "main"))]


def test_import_lock_without_a_with_statement(python: FakePython) -> None:
    # CPython 3.15
    lock = module_lock(python)
    caller = python.in_with([], function="main")
    frame = python.in_with([], previous=caller, file="<frozen importlib._bootstrap>", function="_find_and_load",
                           variables=[("name", python.string("x")), ("lock", lock)])
    assert [(found.lock, found.at) for found in taken(python, frame)] == [(lock, at(100, "main"))]


# -- locks that may have been released again ------------------------------------------------------------------

@pytest.mark.parametrize(("names", "released"), [
    (("time", "sleep"), False), (("lock", "release"), True), (("release_lock",), True), (("__exit__",), True)])
def test_function_that_may_have_released(python: FakePython, names: tuple[str, ...], released: bool) -> None:
    found, = taken(python, python.in_with([python.exit_of(python.lock())], names=names))
    assert (found.released, found.unless_waiting) == (released, False)


def doubts(python: FakePython, frame: int, lock: int) -> tuple[bool, bool]:
    """Whether a lock may be free, and whether it may be free unless the thread waits for it."""
    found, = (found for found in taken(python, frame) if found.lock == lock)
    return found.released, found.unless_waiting


@pytest.mark.parametrize(("names", "expected"), [
    ((), (False, False)), (("lock", "release"), (True, True)), (("lock", "release", "acquire"), (True, True)),
    # the function acquires the lock first
    (("lock", "acquire", "release"), (False, True))])
@pytest.mark.parametrize("known", ["variable", "attribute", "inside", "global"])
def test_inner_function_that_may_have_released(python: FakePython, names: tuple[str, ...],
                                               expected: tuple[bool, bool], known: str) -> None:
    lock = python.lock()
    value = {"variable": lock, "attribute": python.instance("Pool", _lock=lock), "inside": python.condition(lock),
             "global": python.integer(1)}[known]
    namespace = python.namespace(lock=lock if known == "global" else python.lock())
    outer = python.in_with([python.exit_of(lock)])
    inner = python.in_with([], previous=outer, names=names, variables=[("x", value)], namespace=namespace)
    assert doubts(python, inner, lock) == expected


def test_inner_function_that_releases_another_lock(python: FakePython) -> None:
    lock = python.lock()
    outer = python.in_with([python.exit_of(lock)])
    inner = python.in_with([], python.exit_of(python.lock()), previous=outer, names=("lock", "release"),
                           variables=[("other", python.lock())], namespace=python.namespace(lock=python.lock()))
    assert doubts(python, inner, lock) == (False, False)


def test_outer_function_that_releases(python: FakePython) -> None:
    lock = python.lock()
    outer = python.in_with([], names=("release",), variables=[("lock", lock)])
    assert doubts(python, python.in_with([python.exit_of(lock)], previous=outer), lock) == (False, False)


@pytest.mark.parametrize("where", ["same frame", "inner frame"])
def test_generator_that_releases_a_lock_temporarily(python: FakePython, where: str) -> None:
    lock, inside = python.lock(), python.lock()
    body = python.in_with([], variables=[("taken", lock)], names=("release", "acquire"),
                          namespace=python.namespace())
    manager = python.python_exit_of(python.instance("_GeneratorContextManager", gen=python.generator_of(body)))
    if where == "same frame":
        frame = python.in_with([python.exit_of(lock), manager, python.exit_of(inside)])
    else:
        frame = python.in_with([manager, python.exit_of(inside)], previous=python.in_with([python.exit_of(lock)]))
    assert doubts(python, frame, lock) == (True, True)
    assert doubts(python, frame, inside) == (False, False)


@pytest.mark.parametrize("method", ["__enter__", "__aenter__"])
@pytest.mark.parametrize(("names", "knows", "released"), [
    (("release",), True, True), (("release",), False, False), (("acquire",), True, False)])
def test_manager_that_releases_a_lock_temporarily(python: FakePython, method: str, names: tuple[str, ...],
                                                    knows: bool, released: bool) -> None:
    lock, inside = python.lock(), python.lock()
    manager = python.instance("Unlocked", taken=lock if knows else python.lock())
    function = python.function(method)
    python.build.put("PyFunctionObject", function, func_code=python.code(method, 1, names=names))
    python.build.put("PyTypeObject", python.type_object("Unlocked"), tp_dict=python.namespace(**{method: function}))
    frame = python.in_with([python.exit_of(lock), python.python_exit_of(manager), python.exit_of(inside)])
    assert doubts(python, frame, lock) == (released, released)
    assert doubts(python, frame, inside) == (False, False)


def test_inner_function_with_unreadable_variables(python: FakePython) -> None:
    lock = python.lock()
    outer = python.in_with([python.exit_of(lock)])
    inner = python.in_with([], previous=outer, names=("release",), namespace=0xDEAD_0000)
    assert doubts(python, inner, lock) == (True, True)


def test_unreadable_frame_is_skipped(python: FakePython) -> None:
    lock = python.lock()
    outer = python.in_with([python.exit_of(lock)])
    broken = python.in_with([python.exit_of(python.lock())], previous=outer)
    reader, stack = reading(python, broken)
    python.build.put("PyCodeObject", stack[0].code, co_stacksize=-1)
    assert [found.lock for found in reader.of(stack)] == [lock]
