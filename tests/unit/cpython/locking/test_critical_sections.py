from __future__ import annotations

import pytest

from gdbext.cpython.locking.critical_sections import (
    MAX_SECTIONS,
    CriticalSection,
    has_critical_sections,
    iter_sections,
    object_with,
)
from gdbext.cpython.objects import Objects
from gdbext.errors import MemoryUnreadable
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import FREE_THREADED, VERSIONS, FakePython, cpython_layouts

STACK = 0x7F00_0000_0000


@pytest.fixture(params=FREE_THREADED)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory({STACK: bytes(0x8000)}), str(request.param), build="free-threaded")


def sections(python: FakePython, newest: int) -> list[CriticalSection]:
    tstate = python.build.new("PyThreadState", critical_section=newest)
    return list(iter_sections(python.memory, python.layouts, tstate))


def test_thread_without_sections(python: FakePython) -> None:
    assert sections(python, 0) == []


def test_sections_are_innermost_first_with_one_and_two_mutexes(python: FakePython) -> None:
    outer = python.section(STACK + 0x200, 0x1000, active=False)
    middle = python.section(STACK + 0x100, 0x2000, 0x3000, previous=outer)
    inner = python.section(STACK, 0x4000, previous=middle)
    assert sections(python, inner) == [
        CriticalSection(STACK, (0x4000,), True), CriticalSection(STACK + 0x100, (0x2000, 0x3000), True),
        CriticalSection(STACK + 0x200, (0x1000,), False)]


def test_section_that_still_waits_has_no_mutex(python: FakePython) -> None:
    assert sections(python, python.section(STACK, 0)) == [CriticalSection(STACK, (), True)]
    assert sections(python, python.section(STACK, 0, 0)) == [CriticalSection(STACK, (), True)]


def test_endless_lists_end(python: FakePython) -> None:
    python.section(STACK, 0x1000, previous=STACK + 0x100)
    assert len(sections(python, python.section(STACK + 0x100, 0x2000, previous=STACK))) == 2
    previous = 0
    for i in range(MAX_SECTIONS + 5):
        previous = python.section(STACK + 32 * i, 0x1000, previous=previous)
    assert len(sections(python, previous)) == MAX_SECTIONS


def test_damaged_list(python: FakePython) -> None:
    found = iter_sections(python.memory, python.layouts, python.build.new(
        "PyThreadState", critical_section=python.section(STACK, 0x1000, previous=0xDEAD_0000)))
    assert next(found) == CriticalSection(STACK, (0x1000,), True)
    with pytest.raises(MemoryUnreadable):
        next(found)


def test_object_with_finds_the_object_of_a_mutex(python: FakePython) -> None:
    objects = Objects(python.memory, python.layouts)
    shared = python.list_object()
    assert object_with(python.layouts, objects, python.mutex_of(shared)) == shared
    # inside another object, in unmapped memory, and in an object of an impossible type
    assert object_with(python.layouts, objects, python.mutex_of(shared) + 8) is None
    assert object_with(python.layouts, objects, STACK + 0x400) is None
    fake = python.build.new("PyObject", ob_type=shared)
    assert object_with(python.layouts, objects, python.mutex_of(fake)) is None
    assert object_with(python.layouts, objects, 0xDEAD_0000) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_builds_with_a_gil_have_no_sections(version: str) -> None:
    layouts = cpython_layouts(version)
    assert not has_critical_sections(layouts)
    assert object_with(layouts, Objects(FakeMemory(), layouts), STACK) is None
    assert has_critical_sections(cpython_layouts(FREE_THREADED[0], "free-threaded"))
