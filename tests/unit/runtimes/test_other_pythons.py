from __future__ import annotations

import pytest

from gdbext.inferior.protocol import Module, Section
from gdbext.runtimes.other_pythons import find_other_pythons
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import FakeMemory

BASE = 0x7F12_0000_0000


def names(memory: FakeMemory, *modules: Module) -> list[tuple[str, str]]:
    return [(name, module.name) for name, module in find_other_pythons(memory, modules, ())]


@pytest.mark.parametrize("function", ["pypy_main_startup", "pypy_execute_source"])
@pytest.mark.parametrize("path", ["/usr/lib/libpypy3.9-c.so", "/opt/pypy/bin/pypy3"])
def test_pypy_is_found_by_its_exports(path: str, function: str) -> None:
    memory, module = fake_elf(BASE, {function: (0x1000, 8)}, path)
    assert names(memory, module) == [("PyPy", module.name)]


def test_graalpy_is_found_by_its_library_name() -> None:
    library = Module("/opt/graalpy/lib/libpythonvm.so", (Section(".text", BASE, BASE + 4096),))
    assert names(FakeMemory(), library) == [("GraalPy", "libpythonvm.so")]


def test_file_that_only_imports_pypy_is_ignored() -> None:
    kinds = {"pypy_execute_source": (0x12, 0)}  # undefined
    memory, module = fake_elf(BASE, {"pypy_execute_source": (0, 0)}, "/app/server", kinds=kinds)
    assert names(memory, module) == []


@pytest.mark.parametrize("path", ["/usr/bin/server", "/usr/lib/libpypy-tools.so", "/usr/bin/python3.11"])
def test_other_programs_are_ignored(path: str) -> None:
    memory, module = fake_elf(BASE, {"_PyRuntime": (0x1000, 8), "main": (0x1100, 8)}, path)
    assert names(memory, module) == []


CONSTANTS = BASE + 0x10_0000


@pytest.mark.parametrize(("texts", "found"), [
    ((b"Fatal Python error: %s", b"_frozen_importlib_external", b"PYTHONHASHSEED"), True),
    ((b"Fatal Python error: %s", b"PYTHONHASHSEED"), False),
    ((), False),
])
@pytest.mark.parametrize("at", [0, (1 << 20) - 5], ids=["first piece", "between two pieces"])
def test_cpython_linked_into_a_program_is_found_by_its_strings(texts: tuple[bytes, ...], found: bool, at: int) -> None:
    data = bytearray(3 << 20)
    for i, text in enumerate(texts):
        data[at + 100 * i:at + 100 * i + len(text)] = text
    memory = FakeMemory({CONSTANTS: bytes(data)})
    program = Module("/app/embedded", (Section(".rodata", CONSTANTS, CONSTANTS + len(data)),), is_main=True)
    assert names(memory, program) == ([("CPython without its symbols", "embedded")] if found else [])
    assert list(find_other_pythons(memory, [program], [program])) == [], "its Python is decoded"
