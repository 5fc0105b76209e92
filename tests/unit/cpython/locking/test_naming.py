from __future__ import annotations

from collections.abc import Sequence

import pytest

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.locking.locks import LockReader
from gdbext.cpython.locking.naming import Name, Names
from gdbext.cpython.objects import Objects
from gdbext.cpython.values import ValueReader
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import VERSIONS, FakePython


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory(), str(request.param))


def stack_of(python: FakePython, *frames: int) -> tuple[Names, list[RawFrame]]:
    objects = Objects(python.memory, python.layouts)
    reader = FrameReader(python.memory, python.layouts, objects)
    tstate = python.build.new("PyThreadState")
    python.innermost(tstate, frames[0])
    values = ValueReader(python.memory, python.layouts, objects)
    return Names(objects, reader, LockReader(python.memory, python.layouts, objects), values), reader.raw(tstate)


def frame(python: FakePython, variables: Sequence[tuple[str, int]] = (), previous: int = 0, namespace: int = 0,
          file: str = "/app/bank.py") -> int:
    code = python.code("f", 1, variables=[name for name, _ in variables], file=file)
    return python.fill(python.frame(code, previous), [value for _, value in variables], (),
                       namespace or python.namespace())


def named(python: FakePython, wanted: Sequence[int], *frames: int) -> str | None:
    names, stack = stack_of(python, *frames)
    found = names.find(stack, wanted)
    return found.text if found is not None else None


def test_variable(python: FakePython) -> None:
    lock = python.lock()
    assert named(python, [lock], frame(python, [("x", python.lock()), ("lock", lock)])) == "lock"


def test_attribute_of_self(python: FakePython) -> None:
    lock = python.lock()
    pool = python.instance("Pool", _lock=lock)
    variables = [("self", pool), ("mine", lock)]
    names, stack = stack_of(python, frame(python, variables))
    assert names.find(stack, [lock]) == Name("self._lock of Pool", pool)


def test_attribute_of_another_object(python: FakePython) -> None:
    lock = python.lock()
    job = python.instance("Job", ready=lock)
    names, stack = stack_of(python, frame(python, [("job", job)]))
    assert names.find(stack, [lock]) == Name("job.ready", job)


def test_attribute_in_slots(python: FakePython) -> None:
    lock = python.lock()
    at = python.build.alloc(64)
    python.build.put("PyObject", at, ob_type=python.class_object("Job", ready=python.slot(32), done=python.slot(40)))
    python.memory.u64(at + 32, lock)
    names, stack = stack_of(python, frame(python, [("job", at)]))
    assert names.find(stack, [lock]) == Name("job.ready", at)


@pytest.mark.parametrize(("module", "name"), [("shop", "accounts of shop"), ("__main__", "accounts of bank")])
def test_global_variable(python: FakePython, module: str, name: str) -> None:
    lock = python.lock()
    namespace = python.namespace(__name__=python.string(module), accounts=lock)
    assert named(python, [lock], frame(python, [("lock", lock)], namespace=namespace)) == name


@pytest.mark.parametrize("kind", ["list", "tuple"])
def test_item(python: FakePython, kind: str) -> None:
    lock = python.lock()
    make = python.list_object if kind == "list" else python.tuple_object
    forks = make(python.lock(), lock)
    table = python.instance("Table", forks=forks)
    assert named(python, [lock], frame(python, [("forks", forks)])) == "forks[1]"
    assert named(python, [lock], frame(python, [("self", table)])) == "self.forks[1] of Table"
    assert named(python, [lock], frame(python, [("table", table)])) == "table.forks[1]"


def test_inner_lock_has_the_name_of_its_object(python: FakePython) -> None:
    lock = python.lock()
    condition = python.condition(lock)
    namespace = python.namespace(__name__=python.string("shop"), changed=condition)
    assert named(python, [lock], frame(python, namespace=namespace)) == "changed of shop"
    assert named(python, [lock], frame(python, [("self", python.instance("Shop", changed=condition))])) == (
        "self.changed of Shop")
    assert named(python, [lock], frame(python, [("changed", condition)])) == "changed"


def test_object_around_a_lock_is_part_of_its_name(python: FakePython) -> None:
    lock = python.lock()
    condition = python.condition(lock)
    shop = python.instance("Shop", changed=condition)
    namespace = python.namespace(__name__=python.string("shop"), changed=condition)
    for at, name in ((frame(python, namespace=namespace), Name("changed of shop", around=condition)),
                     (frame(python, [("self", shop)]), Name("self.changed of Shop", shop, around=condition)),
                     (frame(python, [("changed", condition)]), Name("changed", around=condition))):
        names, stack = stack_of(python, at)
        assert names.find(stack, [lock]) == name
    names, stack = stack_of(python, frame(python, namespace=namespace))
    assert names.find(stack, [condition]) == Name("changed of shop")


def test_outermost_object_is_preferred(python: FakePython) -> None:
    lock = python.lock()
    event = python.instance("Event", _cond=python.condition(lock))
    assert named(python, [event, lock], frame(python, [("lock", lock), ("done", event)])) == "done"


def test_self_is_not_a_name(python: FakePython) -> None:
    lock = python.lock()
    caller = frame(python, [("done", lock)])
    assert named(python, [lock], frame(python, [("self", lock)], caller)) == "done"


def test_outer_frames_are_searched(python: FakePython) -> None:
    lock = python.lock()
    at = frame(python, [("lock", lock)])
    for _ in range(3):
        at = frame(python, [], at)
    assert named(python, [lock], at) == "lock"
    assert named(python, [lock], frame(python, [], at)) is None


def test_unreadable_frame_is_skipped(python: FakePython) -> None:
    lock = python.lock()
    caller = frame(python, [("lock", lock)])
    assert named(python, [lock], frame(python, [("x", lock)], caller, namespace=0xDEAD_0000)) == "lock"


def test_globals_are_read_once(python: FakePython) -> None:
    lock = python.lock()
    namespace = python.namespace(__name__=python.string("shop"), accounts=lock)
    names, stack = stack_of(python, frame(python, namespace=namespace))
    names.find(stack, [lock])
    python.memory.reads.clear()
    assert names.globals_of(namespace)[0] == "shop"
    assert python.memory.reads == []


def class_of(python: FakePython, name: str, **attributes: int) -> int:
    """A class with attributes of its own."""
    at = python.type_object(name)
    python.build.put("PyObject", at, ob_type=python.type_object("type"))
    return python.build.put("PyTypeObject", at, tp_dict=python.namespace(**attributes))


def test_attribute_of_a_class(python: FakePython) -> None:
    lock = python.lock()
    pool = python.instance("Pool", size=python.integer(1))
    kind = class_of(python, "Pool", lock=lock)
    for variable, name in (("self", "self.lock of Pool"), ("pool", "pool.lock")):
        names, stack = stack_of(python, frame(python, [(variable, pool)]))
        assert names.find(stack, [lock]) == Name(name, pool, of_class=True)
    assert named(python, [lock], frame(python, [("cls", kind)])) == "cls.lock"
    namespace = python.namespace(__name__=python.string("bank"), Pool=kind)
    assert named(python, [lock], frame(python, namespace=namespace)) == "Pool.lock of bank"


def test_attribute_of_a_base_class(python: FakePython) -> None:
    lock = python.lock()
    pool = python.instance("Pool", size=python.integer(1))
    python.instance("Base", size=python.integer(1))
    python.build.put("PyTypeObject", class_of(python, "Pool"), tp_base=class_of(python, "Base", lock=lock))
    assert named(python, [lock], frame(python, [("self", pool)])) == "self.lock of Pool"


def test_item_of_a_global_variable(python: FakePython) -> None:
    lock, other = python.lock(), python.lock()
    namespace = python.namespace(__name__=python.string("bank"), forks=python.list_object(other, lock),
                                 accounts=python.namespace(joe=other))
    assert named(python, [lock], frame(python, namespace=namespace)) == "forks[1] of bank"
    # the first of several names counts
    assert named(python, [other], frame(python, namespace=namespace)) == "forks[0] of bank"
    accounts = python.namespace(__name__=python.string("bank"), accounts=python.namespace(joe=lock))
    assert named(python, [lock], frame(python, namespace=accounts)) == "accounts['joe'] of bank"


def test_class_that_is_its_own_base(python: FakePython) -> None:
    pool = python.instance("Pool", size=python.integer(1))
    python.build.put("PyTypeObject", class_of(python, "Pool"), tp_base=python.type_object("Pool"))
    assert named(python, [python.lock()], frame(python, [("self", pool)])) is None
