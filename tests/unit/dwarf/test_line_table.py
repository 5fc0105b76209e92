"""Line tables: made-up programs, and those of gcc."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdbext.dwarf.line_table import LineTable
from gdbext.errors import CorruptStructure
from tests.support import dwarf_files

START = 0x1000
COPY, END, NEGATE = b"\1", b"\0\1\1", b"\6"


class Sections:
    """The debug sections of a made-up file."""

    class budget:
        @staticmethod
        def check() -> None:
            pass

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, name: str, offset: int, size: int) -> bytes:
        return self.data[offset:offset + size]

    def string(self, name: str, offset: int) -> str:
        return f"{name}+{offset}"


def at(address: int) -> bytes:
    return b"\0\x09\2" + address.to_bytes(8, "little")


def advance(size: int) -> bytes:
    return b"\2" + bytes([size])


def line(step: int) -> bytes:
    return b"\3" + bytes([step & 0x7F])


def file(number: int) -> bytes:
    return b"\4" + bytes([number])


def table(program: bytes) -> LineTable:
    """A line table of version 4 with the files a.c and b.c; a program begins with line 1."""
    rest = b"\1\1\1\xfb\x0e\x0d" + b"\0\1\1\1\1\0\0\0\1\0\0\1" + b"sub\0\0" + b"a.c\0\0\0\0" + b"b.c\0\1\0\0\0"
    body = b"\4\0" + len(rest).to_bytes(4, "little") + rest + program
    return LineTable(Sections(len(body).to_bytes(4, "little") + body), 0)  # type: ignore[arg-type]


def test_row_is_valid_until_the_next_one() -> None:
    found = table(at(START) + COPY + line(4) + advance(8) + COPY + advance(8) + END)
    assert [found.find(START + offset) for offset in (-1, 0, 7, 8, 15, 16)] == [
        None, (1, 1), (1, 1), (1, 5), (1, 5), None]
    assert [tuple(each) for each in found.files[1:]] == [("a.c", None), ("b.c", "sub")]


def test_row_without_a_line_is_ignored() -> None:
    found = table(at(START) + COPY + line(-1) + advance(8) + COPY + advance(8) + END)
    assert found.find(START + 9) == (1, 1)


def test_last_of_several_rows_at_an_address_counts_if_a_statement_begins_there() -> None:
    found = table(at(START) + COPY + line(1) + COPY + advance(8) + END)
    assert found.find(START) == (1, 2)
    found = table(at(START) + COPY + line(1) + NEGATE + COPY + advance(8) + END)
    assert found.find(START) == (1, 1)


def test_row_of_another_file_ends_the_one_before() -> None:
    found = table(at(START) + COPY + file(2) + line(6) + COPY + advance(8) + END)
    assert found.find(START) == (2, 7)
    # one where no statement begins does not
    found = table(at(START) + COPY + NEGATE + file(2) + line(6) + COPY + advance(8) + END)
    assert found.find(START) == (1, 1)


def test_functions_that_the_linker_dropped_have_no_lines() -> None:
    found = table(at(0) + COPY + advance(100) + END + at(START) + COPY + advance(8) + END)
    assert found.find(50) is None
    assert found.find(START) == (1, 1)


def test_sequence_of_unordered_rows_is_sorted() -> None:
    found = table(at(START) + COPY + line(1) + at(START - 8) + COPY + at(START + 8) + END)
    assert [found.find(START - 4), found.find(START)] == [(1, 2), (1, 1)]


@pytest.mark.parametrize("program", [b"\3", b"\2\x80", b"\0\x20\2", b"\5"])
def test_program_that_ends_early_is_corrupt(program: bytes) -> None:
    with pytest.raises(CorruptStructure):
        table(program)


@pytest.mark.parametrize("data", [b"", bytes(16), b"\x20\0\0\0\6\0", b"\xff" * 64])
def test_bad_header_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptStructure):
        LineTable(Sections(data), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_lines_are_those_of_the_source(version: int, tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path, f"-gdwarf-{version}")
    sections = dwarf_files.sections(made)
    with sections.budget.spending():
        found = LineTable(sections, 0)
    places = {found.find(address) for address in dwarf_files.function(made, "bank::transfer(int volatile*)")}
    numbers = {place[1] for place in places if place is not None}
    assert None not in places
    assert numbers >= {dwarf_files.line("pay"), dwarf_files.line("end of transfer")}
    assert {found.files[place[0]].name for place in places if place is not None} == {"bank.cc"}
