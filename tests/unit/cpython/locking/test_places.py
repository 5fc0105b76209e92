from __future__ import annotations

import pytest

from gdbext.cpython.code.lock_calls import Place
from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.locking.places import PlaceReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.values import ValueReader
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import VERSIONS, FakePython


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory(), str(request.param))


def reading(python: FakePython, namespace: int = 0, **variables: int) -> tuple[PlaceReader, RawFrame]:
    frame = python.in_with([], variables=list(variables.items()), namespace=namespace)
    tstate = python.build.new("PyThreadState")
    python.innermost(tstate, frame)
    objects = Objects(python.memory, python.layouts)
    frames = FrameReader(python.memory, python.layouts, objects)
    (raw,) = frames.raw(tstate)
    return PlaceReader(objects, frames, ValueReader(python.memory, python.layouts, objects)), raw


def test_variables_and_attributes(python: FakePython) -> None:
    lock, other = python.lock(), python.lock()
    pool = python.instance("Pool", lock=lock)
    server = python.instance("Server", pool=pool)
    places, raw = reading(python, python.namespace(lock=other, server=server), lock=lock, self=server)
    assert places.value(raw, Place(False, "lock")) == lock
    assert places.value(raw, Place(True, "lock")) == other
    assert places.value(raw, Place(False, "self", ("pool", "lock"))) == lock
    assert places.value(raw, Place(True, "server", ("pool", "lock"))) == lock
    for unknown in (Place(False, "nothing"), Place(True, "nothing"), Place(False, "self", ("lock",)),
                    Place(False, "self", ("pool", "lock", "more"))):
        assert places.value(raw, unknown) == 0


def test_only_a_local_variable_is_changed_by_its_function_alone(python: FakePython) -> None:
    places, raw = reading(python, lock=python.lock())
    assert places.is_only_here(raw, Place(False, "lock"))
    assert not places.is_only_here(raw, Place(True, "lock"))
    assert not places.is_only_here(raw, Place(False, "lock", ("inner",)))


def test_damaged_object(python: FakePython) -> None:
    places, raw = reading(python, self=0x10, lock=python.lock())
    assert places.value(raw, Place(False, "self", ("lock",))) == 0
