"""Abbreviations and forms, in made-up bytes."""

from __future__ import annotations

import pytest

from gdbext.dwarf.forms import (
    ADDR,
    IMPLICIT_CONST,
    REF_ADDR,
    SEC_OFFSET,
    STRING,
    STRP,
    fixed_size,
    read_abbreviations,
    read_value,
    skip,
)
from gdbext.elf.dwarf_cursor import DwarfCursor
from gdbext.errors import CorruptStructure

#: Bytes of a value by its form, and the value.
VALUES: dict[int, tuple[bytes, int | bytes]] = {
    ADDR: (bytes(range(1, 9)), 0x0807060504030201),
    0x0B: (b"\xfe", 0xFE),
    0x05: (b"\1\2", 0x201),
    0x0F: (b"\x81\1", 129),
    0x0D: (b"\x7f", -1),
    0x19: (b"", 1),
    STRING: (b"name\0", b"name"),
    STRP: (b"\1\0\0\0", 1),
    SEC_OFFSET: (b"\2\0\0\0", 2),
    0x0A: (b"\2ab", b"ab"),
    0x03: (b"\1\0x", b"x"),
    0x18: (b"\x81\0y", b"y"),
    0x27: (b"\1\0\0", 1),
    0x1E: (bytes(16), 0),
}


def abbreviation(*forms: int) -> bytes:
    pairs = b"".join(bytes([0x03]) + (bytes([form]) if form < 0x80 else b"") for form in forms)
    return b"\1\x2e\0" + pairs + b"\0\0\0"


@pytest.mark.parametrize("form", VALUES)
def test_value_is_read_and_skipped(form: int) -> None:
    data, value = VALUES[form]
    cursor = DwarfCursor(data + b"\xff", 0)
    assert read_value(cursor, form, 0, 5, 4) == value
    assert cursor.at == len(data)
    assert skip(data, 0, read_abbreviations(abbreviation(form), 5, 4)[1].steps) == len(data)


def test_values_one_after_the_other_are_skipped() -> None:
    data = b"".join(value for value, _ in VALUES.values())
    assert skip(data, 0, read_abbreviations(abbreviation(*VALUES), 5, 4)[1].steps) == len(data)


def test_constant_of_the_abbreviation_takes_no_bytes() -> None:
    table = read_abbreviations(b"\1\x2e\1\x3b\x21\x7f\0\0\0", 5, 4)
    assert table[1].attributes == ((0x3B, IMPLICIT_CONST, -1),)
    assert table[1].has_children
    assert read_value(DwarfCursor(b"", 0), IMPLICIT_CONST, -1, 5, 4) == -1


def test_sizes_depend_on_the_version() -> None:
    assert [fixed_size(REF_ADDR, version, 4) for version in (2, 3)] == [8, 4]
    assert [fixed_size(STRP, 5, size) for size in (4, 8)] == [4, 8]
    assert fixed_size(STRING, 5, 4) is None


def test_place_of_the_next_entry_is_behind_what_comes_before() -> None:
    shape = read_abbreviations(b"\1\x2e\1\x03\x08\x01\x13\0\0\0", 5, 4)[1]
    assert shape.sibling_form == 0x13
    assert skip(b"name\0\x10\0\0\0", 0, shape.to_sibling) == 5


@pytest.mark.parametrize("table", [b"", b"\1\x2e", abbreviation(0x7E), b"\1\x2e\0" + b"\3\x0b" * 300])
def test_bad_table_is_corrupt(table: bytes) -> None:
    with pytest.raises(CorruptStructure):
        read_abbreviations(table, 5, 4)


@pytest.mark.parametrize("form", [form for form, (data, _) in VALUES.items() if data])
def test_value_that_ends_early_is_corrupt(form: int) -> None:
    with pytest.raises(CorruptStructure):
        read_value(DwarfCursor(VALUES[form][0][:-1], 0), form, 0, 5, 4)
