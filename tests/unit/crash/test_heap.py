from __future__ import annotations

import struct

from gdbext.crash.heap import DamagedHeader, damaged_header
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
