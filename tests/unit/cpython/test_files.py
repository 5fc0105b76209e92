from __future__ import annotations

import pytest

from gdbext.cpython.files import FileReader
from gdbext.cpython.objects import Objects
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import VERSIONS, FakePython


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory(), str(request.param))


def reader(python: FakePython) -> FileReader:
    return FileReader(python.memory, python.layouts, Objects(python.memory, python.layouts))


def made(python: FakePython, kind: str, first: int) -> int:
    """An object of a type with one member after its header."""
    header = python.layouts["PyObject"].size
    at = python.build.alloc(header + 64)
    python.build.put("PyObject", at, ob_type=python.type_object(kind))
    python.memory.u64(at + header, first)
    return at


def text(python: FakePython, buffer: int) -> int:
    return python.build.new("textio", buffer=buffer, ob_type=python.type_object("_io.TextIOWrapper"))


def test_descriptor_of_each_layer(python: FakePython) -> None:
    raw = made(python, "_io.FileIO", 7)
    buffered = made(python, "_io.BufferedWriter", raw)
    files = reader(python)
    assert [files.descriptor(each) for each in (raw, buffered)] == [7, 7]


def test_closed_file_has_no_descriptor(python: FakePython) -> None:
    assert reader(python).descriptor(made(python, "_io.FileIO", 0xFFFFFFFF)) is None


def test_number_is_a_descriptor_only_if_wanted(python: FakePython) -> None:
    number, files = python.integer(9), reader(python)
    assert (files.descriptor(number), files.descriptor(number, True)) == (None, 9)
    assert files.descriptor(python.integer(-1), True) is None


def test_other_objects_and_unreadable_memory(python: FakePython) -> None:
    assert reader(python).descriptor(made(python, "app.File", 7)) is None
    assert reader(python).descriptor(0x10) is None
