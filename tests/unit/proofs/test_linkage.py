"""The files that are linked with functions and variables, by the words in their tables of links."""

from __future__ import annotations

from typing import cast

import pytest

from gdbext.inferior.protocol import Module, Section
from gdbext.proofs.linkage import Linkage
from gdbext.proofs.program import Program
from tests.support.fake_memory import FakeMemory

LIBC = Module("/lib/libc.so.6", (Section(".text", 0x10_0000, 0x11_0000),))
SIZE, TABLE = 0x1000, 0x800
FUNCTION = LIBC.sections[0].start + 0x100


def file(number: int, table: str | None = ".got") -> Module:
    start = 0x1000 * number
    names = (Section(".text", start, start + TABLE), Section(table or "", start + TABLE, start + SIZE))
    return Module(f"/app/{number}.so", names)


APP, MIDDLE, OTHER = file(1), file(2), file(3)


def linkage(links: dict[int, int], *modules: Module) -> Linkage:
    """Files whose tables begin with one link each."""
    listed = (*modules, APP, MIDDLE, OTHER, LIBC)

    class Files:
        def module(self, address: int) -> Module | None:
            return next((each for each in listed if each.contains(address)), None)

    memory = FakeMemory({0x1000: bytes(3 * SIZE)})
    for number, link in links.items():
        memory.u64(0x1000 * number + TABLE, link)
    return Linkage(memory, cast(Program, Files()), (LIBC,))


def test_file_has_a_function_if_it_is_linked_with_it_or_defines_it() -> None:
    files = linkage({1: FUNCTION})
    assert files.has(frozenset((FUNCTION,)), APP)
    assert not files.has(frozenset((FUNCTION,)), OTHER)
    assert not files.has(frozenset((FUNCTION,)), LIBC), "the C library itself"
    assert files.has(frozenset((0x3100,)), OTHER)


def test_file_is_near_a_function_if_a_file_that_it_is_linked_with_has_it() -> None:
    files = linkage({1: 0x2100, 2: FUNCTION})
    assert files.is_near(frozenset((FUNCTION,)), APP)
    assert not files.is_near(frozenset((FUNCTION,)), OTHER)


@pytest.mark.parametrize(("links", "reaches"), [({1: 0x2100, 2: 0x3100}, True), ({1: 0x2100}, False), ({}, False)])
def test_code_reaches_the_variables_of_files_that_links_lead_to(links: dict[int, int], reaches: bool) -> None:
    assert linkage(links).may_reach(APP, OTHER.path) is reaches


def test_file_whose_links_are_not_known_may_reach_any_variable() -> None:
    unknown = Module("/app/packed.so", (Section("", 0x1000, 0x2000),))
    assert linkage({}).may_reach(unknown, OTHER.path)
    assert linkage({}).may_reach(None, OTHER.path), "code outside of all files"
