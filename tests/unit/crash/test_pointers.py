from __future__ import annotations

import time

import pytest

from gdbext.crash.pointers import (
    BAD,
    CODE,
    CPLUSPLUS,
    DATA,
    FILE,
    LOWEST,
    MEMORY,
    NON_CANONICAL,
    NULL,
    PATTERN,
    PYTHON,
    SMALL,
    STACK,
    UNMAPPED,
    Pointers,
)
from gdbext.inferior.address_space import Region
from gdbext.inferior.protocol import Module, Section
from gdbext.narrate.reasons import explain
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.python_side import read_python_side
from gdbext.threads.threads import read_threads
from tests.support import fake_cxx, versions
from tests.support.fake_memory import NoiseMemory
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import APP_DATA, APP_TEXT, DRIVER_TEXT, LIBC_TEXT, STACK_SIZE, FakeTarget

HEAP, FILE_AT, GUARD = 0x50_0000_0000, 0x60_0000, 0x70_0000


def pointers_of(target: FakeTarget) -> Pointers:
    findings = Findings()
    code = read_code(target, findings)
    threads = read_threads(target, None, findings)
    side = read_python_side(target, code, threads, GoneOwners(target, None, threads), findings)
    return Pointers(target, code, threads, side.pythons)


def mapped_target(target: FakeTarget | None = None) -> FakeTarget:
    target = target or FakeTarget("core")
    thread = target.thread()
    target.ram.map(HEAP, bytes(0x1000))
    target.mappings = [
        Region(APP_TEXT, APP_TEXT + 0x1000, "rx", "/app/server"),
        Region(APP_DATA, APP_DATA + 0x1000, "rw", "/app/server"),
        Region(FILE_AT, FILE_AT + 0x1000, "rw", "/data/table.bin", 0x2000), Region(GUARD, GUARD + 0x1000, "", None),
        Region(HEAP, HEAP + 0x1000, "rw", "[heap]"), Region(HEAP + 0x8000, HEAP + 0x9000, "rw", None),
        Region(DRIVER_TEXT, DRIVER_TEXT + 0x1000, "rx", "/app/libdrv.so"),
        Region(thread.stack, thread.stack + STACK_SIZE, "rw", None)]
    return target


def described(target: FakeTarget, value: int) -> tuple[str, str]:
    found = pointers_of(target).describe(value)
    assert found.value == value
    return found.kind, explain(found.what)


@pytest.mark.parametrize(("value", "kind", "text"), [
    (0, NULL, "null"), (1, SMALL, "not an address: 1 is too small"),
    (LOWEST - 1, SMALL, "not an address: 65535 is too small"),
    (1 << 47, NON_CANONICAL, "not a valid address (not canonical)"),
    ((1 << 64) - (1 << 47) - 1, NON_CANONICAL, "not a valid address (not canonical)"),
    (int.from_bytes(b"hello!", "little") | 0x21 << 56, NON_CANONICAL, "not a valid address (not canonical)"),
    (int.from_bytes(b"/tmp/log", "little"), NON_CANONICAL,
     "not a valid address (not canonical); as text it reads '/tmp/log'"),
    (int.from_bytes(b"it's a b", "little"), NON_CANONICAL,
     "not a valid address (not canonical); as text it reads \"it's a b\""),
    (0x1234_5678_9ABC_DEF0, NON_CANONICAL, "not a valid address (not canonical)"),
    ((1 << 64) - 1, UNMAPPED, "not mapped"), (HEAP + 0x1000, UNMAPPED, "not mapped"),
    (HEAP, MEMORY, "heap"), (HEAP + 0x8010, MEMORY, "memory"),
    (FILE_AT + 0x10, FILE, "in the mapping of table.bin, at byte 0x2010 of the file"),
    (GUARD, MEMORY, "memory that may not be accessed (a guard page, or reserved)"),
    (APP_TEXT + 8, CODE, "code: in server"), (APP_DATA + 8, DATA, "data: in server"),
])
def test_describe_values(value: int, kind: str, text: str) -> None:
    assert described(mapped_target(), value) == (kind, text)


@pytest.mark.parametrize("value", [0xDDDDDDDDDDDDDDDD, 0xDDDDDDDDDDDDDDDD + 0x48, 0x5A5A5A5A5A5A5A5A,
                                   0x9999999999999999])
def test_describe_fill_patterns(value: int) -> None:
    kind, text = described(mapped_target(), value)
    assert kind == PATTERN
    assert "eight times, a fill pattern" in text


def test_bad_kinds_are_invalid_pointers() -> None:
    """A program may intend a pointer to an inaccessible mapping or a file, but not to these."""
    assert {NULL, SMALL, NON_CANONICAL, PATTERN, UNMAPPED} == BAD


def test_describe_code_and_data_has_the_symbol() -> None:
    target = mapped_target()
    target.name(DRIVER_TEXT + 0x40, "update_table")
    target.name(APP_DATA + 0x40, "table")
    assert described(target, DRIVER_TEXT + 0x40) == (CODE, "code: update_table in libdrv.so")
    assert described(target, APP_DATA + 0x40) == (DATA, "data: table in server")


def test_describe_a_stack_has_the_thread() -> None:
    target = mapped_target()
    thread = target.fakes[0]
    assert described(target, thread.stack + 0x80) == (STACK, "on the stack of thread 1")
    pointers = pointers_of(target)
    assert (pointers.stack_of(thread.stack), pointers.stack_of(HEAP)) == (1, None)


def test_describe_without_mappings_reads_memory() -> None:
    target = mapped_target()
    target.mappings = []
    assert described(target, HEAP + 8) == (MEMORY, "memory")
    assert described(target, HEAP + 0x1000) == (UNMAPPED, "not readable")
    # nothing shows whether it is code
    assert described(target, APP_TEXT + 8) == (DATA, "data: in server")


def test_describe_readable_memory_without_a_mapping() -> None:
    target = mapped_target()
    target.ram.map(0x5A_0000_0000, bytes(16))
    assert described(target, 0x5A_0000_0000) == (MEMORY, "memory")


@pytest.mark.parametrize("version", versions.from_minor(9))
def test_describe_python_objects(version: str) -> None:
    target = PythonTarget(version, "core")
    target.python_thread()
    at = target.python.list_object()
    count = at + target.python.layouts["PyObject"].offset("ob_type") - 8
    assert described(target, at) == (
        PYTHON, "a Python object of type list that was freed (its reference count is 0)")
    target.python.memory.u64(count, 1)
    assert described(target, at) == (PYTHON, "a Python object of type list")
    assert explain(pointers_of(target).describe(at).what) == "a Python object of type list"
    # neither the words next to it nor an object whose type is not a type
    assert described(target, at + 4)[0] == MEMORY
    target.python.build.put("PyObject", at, ob_type=0xDDDDDDDDDDDDDDDD)
    assert described(target, at)[0] == MEMORY
    assert pointers_of(target).python_object(0x10) is None


def test_describe_cplusplus_objects() -> None:
    program = fake_cxx.Program()
    image, size = fake_cxx.IMAGE, fake_cxx.IMAGE_SIZE
    target = FakeTarget("core")
    target.thread()
    at = program.heap(32)
    program.memory.u64(at, program.vtable(program.type("4Mesh")))
    for start, length in ((image, size), (fake_cxx.HEAP, 0x8000)):
        target.ram.map(start, program.memory.read(start, length))
    target.loaded.append(Module("/app/libmesh.so", (Section(".data", image, image + size),)))
    target.demangled["_ZTI4Mesh"] = "typeinfo for Mesh"
    assert described(target, at) == (CPLUSPLUS, "a C++ object of class Mesh")
    assert pointers_of(target).class_of(at + 8) is None
    assert pointers_of(target).class_of(at + 1) is None
    assert described(target, at + 8)[0] == MEMORY
    # a class without a demangled name has its mangled name
    target.demangled.clear()
    assert described(target, at) == (CPLUSPLUS, "a C++ object of class 4Mesh")


def test_describe_reads_an_address_once() -> None:
    target = mapped_target()
    pointers = pointers_of(target)
    pointers.describe(HEAP + 8)
    reads = len(target.ram.reads)
    assert reads
    pointers.describe(HEAP + 8)
    assert len(target.ram.reads) == reads


def test_is_readable() -> None:
    pointers = pointers_of(mapped_target())
    assert pointers.is_readable(HEAP)
    assert not pointers.is_readable(HEAP + 0x1000)
    assert not pointers.is_readable(GUARD)
    assert pointers.in_image(LIBC_TEXT)
    assert not pointers.in_image(HEAP)


def test_describe_random_memory() -> None:
    target = PythonTarget("3.13.0", "core")
    target.python_thread()
    pointers = pointers_of(target)
    pointers._memory = NoiseMemory(3)
    start = time.process_time()
    for value in range(0x10000, 0x20000, 0x38):
        assert explain(pointers.describe(value).what)
    for shift in range(64):
        assert explain(pointers.describe(1 << shift).what)
    assert time.process_time() - start < 5
