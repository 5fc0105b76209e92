from __future__ import annotations

import struct

import pytest

from gdbext.cpython.object_state import (
    ObjectState,
    filled_with,
    nearly_filled_with,
    read_object_state,
)
from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError, MemoryUnreadable
from gdbext.model.reasons import Reason
from gdbext.narrate.reasons import explain
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_python import FREE_THREADED, VERSIONS, FakePython, cpython_layouts

HEAP = 0x5555_0000_0000
MASK = (1 << 64) - 1


def python_of(version: str, build: str = "default", heap: int = HEAP) -> FakePython:
    return FakePython(FakeMemory(), version, heap, build)


def state_of(python: FakePython, address: int) -> ObjectState:
    return read_object_state(python.memory, python.layouts, Objects(python.memory, python.layouts), address)


def header(python: FakePython, address: int, first: int, kind: int | None = None) -> ObjectState:
    """The state of an object with these words in its header; without `kind` the type is unchanged."""
    at = address + python.layouts["PyObject"].offset("ob_type")
    python.memory.u64(at - 8, first)
    if kind is not None:
        python.memory.u64(at, kind)
    return state_of(python, address)


def explained(problem: Reason | None) -> str:
    """The sentence of a problem."""
    assert problem is not None
    return explain(problem)


def referred_to(python: FakePython) -> tuple[int, ...]:
    """First words of live objects of a version."""
    version = python.version_tuple
    if version >= (3, 14):
        # a count of 32 bits, 16 unused, flags; immortal: the upper half of the counts, static ones with a flag
        return (1, 3, (1 << 31) - 1, 3 << 30, 3 << 30 | 1 << 50, 0xFFFFFFFF, 5 | 1 << 48, 1 << 31, 5 | 1 << 32)
    if version >= (3, 12):
        return (1, 77, 1 << 31, 0xFFFFFFFF, 0xFFFFFFFE, 0x1_0000_0000, 0x1_0000_0003)
    return (1, 77, 1 << 32, 999_999_999_999)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_live_object_has_no_problem(version: str) -> None:
    python = python_of(version)
    for address in (python.string("text"), python.integer(7), python.list_object(), python.byte_string(b"x"),
                    python.type_object("type"), python.type_object("int"), python.class_object("Job")):
        for first in referred_to(python):
            state = header(python, address, first)
            assert (state.problem, state.freed) == (None, False), hex(first)
            assert state.references is not None
            assert state.references > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_references_of_immortal_objects_are_not_counted(version: str) -> None:
    python = python_of(version)
    at = python.integer(7)
    immortal = 3 << 30 if python.version_tuple >= (3, 14) else 0xFFFFFFFF
    expected = 1 if python.version_tuple >= (3, 12) else immortal
    assert header(python, at, immortal).references == expected
    assert header(python, at, 12).references == 12


@pytest.mark.parametrize("version", FREE_THREADED)
def test_a_live_object_of_a_free_threaded_build(version: str) -> None:
    python = python_of(version, "free-threaded")
    for address in (python.string("text"), python.list_object(), python.type_object("int")):
        # ob_tid, and counts: 0 is a usual local one if other threads have references
        python.memory.u64(address, 0, 0)
        python.build.put("PyObject", address, ob_ref_shared=2 << 2)
        assert state_of(python, address) == ObjectState(address, 2, python.type_object(
            Objects(python.memory, python.layouts).type_name(address)), None)


@pytest.mark.parametrize("version", FREE_THREADED)
def test_freed_objects_of_a_free_threaded_build(version: str) -> None:
    """Its type remains, nobody has a reference, and its first word is a link to the next free block."""
    python = python_of(version, "free-threaded")
    freed, other = python.list_object(), python.list_object()
    python.build.put("PyObject", freed, ob_ref_local=0, ob_ref_shared=3)
    assert "its reference count is 0" in explained(state_of(python, freed).problem)
    python.memory.u64(freed, other)
    state = state_of(python, freed)
    assert state.freed
    assert "as in a free list" in explained(state.problem)


@pytest.mark.parametrize("version", FREE_THREADED)
def test_a_dead_object_of_a_free_threaded_build(version: str) -> None:
    python = python_of(version, "free-threaded")
    at = python.list_object()
    python.build.put("PyObject", at, ob_type=0xDDDDDDDDDDDDDDDD)
    assert "type pointer is the byte 0xdd eight times" in explained(state_of(python, at).problem)
    python.build.put("PyObject", at, ob_type=0x10)
    assert explained(state_of(python, at).problem) == "its type pointer 0x10 does not lead to a readable type"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("heap", [HEAP, 0x5555_9000_0000, 0x7F12_0000_0000])
def test_freed_block_of_pymalloc(version: str, heap: int) -> None:
    """The first word is the next free block's address; the type is unchanged."""
    python = python_of(version, heap=heap)
    at, other = python.integer(7), python.integer(8)
    state = header(python, at, other)
    assert (state.freed, explained(state.problem)) == (
        True, "its first word is the address of another block, as in a free list of the Python allocator: it was freed")


@pytest.mark.parametrize("version", VERSIONS)
def test_freed_block_of_pymalloc_without_a_type(version: str) -> None:
    python = python_of(version, heap=0x5555_9000_0000)
    at, other = python.integer(7), python.integer(8)
    state = header(python, at, other, 0)
    assert state.freed
    assert "free list of the Python allocator" in explained(state.problem)


@pytest.mark.parametrize("version", VERSIONS)
def test_freed_block_of_malloc(version: str) -> None:
    """The first word is the next block's address, mixed with its own (PROTECT_PTR); then a random key."""
    python = python_of(version, heap=0x5555_0800_0000)
    at, other = python.build.alloc(64), python.build.alloc(64)
    state = header(python, at, other ^ at >> 12, 0x8A3C_55D2_1199_0207)
    assert (state.freed, explained(state.problem)) == (
        True, "its first word is a link of malloc's free list: it was freed")
    # the last block of a list is not recognised as one, but the next word is not a type
    state = header(python, at, at >> 12, 0x8A3C_55D2_1199_0207)
    assert state.freed is False
    assert explained(state.problem) == "its type pointer 0x8a3c55d211990207 does not lead to a type"


@pytest.mark.parametrize("version", VERSIONS)
def test_links_are_recognised_only_to_near_memory(version: str) -> None:
    python = python_of(version)
    at = python.integer(7)
    python.memory.map(HEAP + (65 << 20), bytes(64))
    for first in (HEAP + (65 << 20), HEAP - 0x1000, at, at + 8):  # too far, unmapped, itself, within itself
        problem = explained(header(python, at, first, 0).problem)
        assert "free list" not in problem, hex(first)
        assert problem


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("byte", "known"), [
    (0xDD, "Python's debug allocator leaves it in freed memory"), (0xDB, "Python up to 3.7"),
    (0xCD, "has not been written yet"), (0x5A, "jemalloc"), (0xBE, "AddressSanitizer"), (0x99, "pattern")])
def test_filled_memory(version: str, byte: int, known: str) -> None:
    python = python_of(version)
    at = python.integer(7)
    word = byte * 0x0101010101010101
    for state in (header(python, at, word, word), header(python, at, 2, word)):
        assert state.freed
        assert explained(state.problem).startswith(f"it contains the byte {byte:#04x} eight times")
        assert known in explained(state.problem)


@pytest.mark.parametrize("version", VERSIONS)
def test_impossible_counts(version: str) -> None:
    python = python_of(version)
    at = python.integer(7)
    state = header(python, at, 0)
    assert (explained(state.problem), state.freed) == ("its reference count is 0", True)
    if python.version_tuple < (3, 14):
        state = header(python, at, MASK - 4)
        assert (explained(state.problem), state.freed) == ("its reference count is -5", False)
        assert explained(header(python, at, 1 << 45).problem) == f"its reference count is {1 << 45}"


@pytest.mark.parametrize("version", VERSIONS)
def test_impossible_types(version: str) -> None:
    python = python_of(version)
    at = python.integer(7)
    plain = python.build.alloc(512)  # zeros
    assert explained(header(python, at, 1, 0).problem) == "its type pointer 0x0 does not lead to a type"
    assert explained(header(python, at, 1, 0x7000_0000_0000).problem) == (
        "its type pointer 0x700000000000 does not lead to a readable type")
    assert header(python, at, 1, python.type_object("int") + 4).problem is not None
    assert explained(header(python, at, 1, plain).problem) == (
        f"its type pointer {plain:#x} does not lead to a readable type")
    # an object that is not a type: instances of `int` make no types
    assert "does not lead to a type" in explained(header(python, at, 1, python.integer(8)).problem)
    assert not header(python, at, 1, plain).freed


@pytest.mark.parametrize("version", VERSIONS)
def test_unmapped_address(version: str) -> None:
    with pytest.raises(MemoryUnreadable):
        state_of(python_of(version), 0x1000)


@pytest.mark.parametrize(("value", "byte"), [
    (0xDDDDDDDDDDDDDDDD, 0xDD), (0x9999999999999999, 0x99), (0x0101010101010101, 1), (0x5A5A5A5A5A5A5A5A, 0x5A)])
def test_words_of_equal_bytes(value: int, byte: int) -> None:
    assert explained(filled_with(value)).startswith(f"the byte {byte:#04x} eight times")
    assert nearly_filled_with(value) == nearly_filled_with(value + 0x18) == filled_with(value)


@pytest.mark.parametrize("value", [0, MASK, 0xDDDDDDDDDDDDDDDC, 0xDDDDDDDDDDDDDD, 0x7F5A5A5A5A5A5A5A, 1 << 56,
                                   0x4242424242424242])
def test_other_words(value: int) -> None:
    assert filled_with(value) is None
    assert nearly_filled_with(value) is None


def test_word_slightly_larger_than_a_pattern() -> None:
    assert nearly_filled_with(0xDDDDDDDDDDDDDDDD + 0xFFFF) is not None
    assert nearly_filled_with(0xDDDDDDDDDDDDDDDD + 0x10000) is None
    assert nearly_filled_with(0xDDDDDDDDDDDDDDDD - 8) is None


@pytest.mark.parametrize(("version", "build"), [*((version, "default") for version in VERSIONS),
                                                *((version, "free-threaded") for version in FREE_THREADED)])
def test_any_memory_can_be_checked(version: str, build: str) -> None:
    layouts = cpython_layouts(version, build)
    for seed in range(5):
        memory = NoiseMemory(seed)
        objects = Objects(memory, layouts)
        for address in range(0x10000, 0x20000, 0x3F8):
            try:
                state = read_object_state(memory, layouts, objects, address)
            except GdbextError:
                continue
            assert state.address == address
        assert memory.bytes_read < 1 << 20
    torn = FakeMemory({0x1000: struct.pack("<Q", 1)})
    with pytest.raises(MemoryUnreadable):
        read_object_state(torn, layouts, Objects(torn, layouts), 0x1000)
