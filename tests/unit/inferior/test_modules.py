from __future__ import annotations

import pytest

from gdbext.inferior.modules import ModuleMap
from gdbext.inferior.protocol import Module, Section

PROGRAM = Module("/app/server", (Section(".text", 0x1000, 0x2000), Section(".data", 0x4000, 0x5000)), is_main=True)
LIBRARY = Module("/lib/libc.so.6", (Section(".text", 0x2000, 0x3000), Section(".bss", 0x9000, 0x9100),
                                    Section(".tbss", 0x4800, 0x4880), Section(".empty", 0x7000, 0x7000)))


@pytest.mark.parametrize(("address", "expected"), [
    (0x1000, PROGRAM), (0x1FFF, PROGRAM), (0x2000, LIBRARY), (0x2FFF, LIBRARY), (0x4000, PROGRAM), (0x4FFF, PROGRAM),
    (0x4800, PROGRAM), (0x4880, PROGRAM), (0x90FF, LIBRARY), (0, None), (0xFFF, None), (0x3000, None), (0x7000, None),
    (0x9100, None), (1 << 64, None), (-1, None),
])
def test_find_returns_the_module_with_an_address(address: int, expected: Module | None) -> None:
    found = ModuleMap([PROGRAM, LIBRARY])
    assert found.find(address) is expected
    assert found.find(address) is expected  # remembered


def test_find_without_modules_returns_none() -> None:
    assert ModuleMap([]).find(0x1000) is None
    assert ModuleMap([Module("/x", ())]).find(0x1000) is None


def test_module_has_name_and_sections() -> None:
    assert (PROGRAM.name, LIBRARY.name, Module("plain", ()).name) == ("server", "libc.so.6", "plain")
    assert PROGRAM.section(".data") == Section(".data", 0x4000, 0x5000)
    assert PROGRAM.section(".bss") is None
    assert PROGRAM.contains(0x4000)
    assert not PROGRAM.contains(0x3000)
