from __future__ import annotations

import struct

from gdbext.crash.heap import Block, DamagedHeader, block_before, damaged_header, pointers_to
from gdbext.inferior.address_space import AddressSpace, Region
from tests.support.fake_memory import FakeMemory

BLOCK, NEXT = 0x5000_0100, 0x5000_0140


def heap(size: int, next_size: int, text: bytes = b"") -> FakeMemory:
    memory = FakeMemory()
    memory.map(BLOCK - 0x80, bytes(0x200))
    memory.write(BLOCK - 16, struct.pack("<2Q", 0, size))
    memory.write(NEXT - 16, struct.pack("<2Q", 0, next_size))
    memory.write(NEXT - 8 - len(text), text)
    return memory


def test_header_of_the_next_block_that_was_overwritten() -> None:
    found = damaged_header(heap(0x41, int.from_bytes(b"nnnnnnnn", "little"), b"names of all"), BLOCK)
    assert found == DamagedHeader(NEXT, 0x6E6E6E6E6E6E6E6E, "names of allnnnnnnnn")


def test_header_of_the_block_itself_without_a_text() -> None:
    assert damaged_header(heap(0x4F, 0x21), BLOCK) == DamagedHeader(BLOCK, 0x4F, None)


def test_headers_that_may_be_valid_are_not_called_damaged() -> None:
    assert damaged_header(heap(0x41, 0x21), BLOCK) is None


def test_block_that_is_not_mapped_is_not_called_damaged() -> None:
    assert damaged_header(FakeMemory(), 0x10) is None


def test_block_before_another_one_is_found_from_the_start_of_the_heap() -> None:
    memory = heap(0x41, 0x21)
    start = BLOCK - 0x50
    memory.write(start, struct.pack("<2Q", 0, 0x41))
    memory.write(start + 16, b"rows of all tables\0")
    assert block_before(memory, start, BLOCK) == Block(start + 16, 0x38, "rows of all tables")
    assert block_before(memory, start, NEXT) == Block(BLOCK, 0x38, None)
    assert block_before(memory, start, NEXT + 8) is None, "no block begins there"
    memory.write(start + 8, struct.pack("<Q", 0x4F))
    assert block_before(memory, start, BLOCK) is None, "an earlier header is damaged too"


def test_pointers_to_a_block_are_found_in_data_of_files_first() -> None:
    memory = FakeMemory()
    memory.map(0x10000, struct.pack("<4Q", 1, BLOCK, 0, BLOCK))
    memory.map(0x20000, struct.pack("<4Q", BLOCK, 0, 0, 0))
    memory.map(0x30000, b"\0\0\0\0" + struct.pack("<3Q", BLOCK, 0, 0) + b"\0\0\0\0")
    space = AddressSpace([Region(0x10000, 0x10020, "rw", None), Region(0x20000, 0x20020, "rw", "/app/server"),
                          Region(0x30000, 0x30020, "rw", None), Region(0x40000, 0x40020, "r", None)])
    assert list(pointers_to(memory, space, BLOCK)) == [0x20000, 0x10008, 0x10018]
