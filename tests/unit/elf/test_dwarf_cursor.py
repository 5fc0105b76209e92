from __future__ import annotations

import pytest

from gdbext.elf.dwarf_cursor import DwarfCursor
from gdbext.errors import CorruptStructure


@pytest.mark.parametrize(("data", "unsigned", "signed"), [
    (b"\x02", 2, 2), (b"\x7f", 127, -1), (b"\x80\x01", 128, 128), (b"\xe5\x8e\x26", 624485, 624485),
    (b"\xc0\xbb\x78", 0x1E1DC0, -123456)])
def test_leb128(data: bytes, unsigned: int, signed: int) -> None:
    assert DwarfCursor(data, 0).uleb() == unsigned
    assert DwarfCursor(data, 0).sleb() == signed


@pytest.mark.parametrize(("encoding", "data", "value"), [
    (0x1B, b"\xf0\xff\xff\xff", 0x0FF0), (0x03, b"\x00\x20\x40\x00", 0x40_2000), (0x3B, b"\x10\0\0\0", 0x9010),
    (0x9B, b"\x10\0\0\0", 0x1010), (0x01, b"\x80\x01", 128)])
def test_encoded_pointer(encoding: int, data: bytes, value: int) -> None:
    assert DwarfCursor(data, 0x1000).encoded(encoding, 0x9000) == value


@pytest.mark.parametrize("encoding", [0x05, 0x20, 0x50, 0xFF])
def test_unknown_encoding_raises(encoding: int) -> None:
    with pytest.raises(CorruptStructure):
        DwarfCursor(bytes(16), 0).encoded(encoding, 0)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 12])
def test_damaged_number_raises(data: bytes) -> None:
    with pytest.raises(CorruptStructure):
        DwarfCursor(data, 0).uleb()
