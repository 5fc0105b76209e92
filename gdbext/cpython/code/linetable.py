"""Decodes the line tables of code objects, in all three formats: instruction -> line and columns. Pure bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

#: The largest line and column: both are an ``int`` in CPython.
_MAX = (1 << 31) - 1


class Positions(NamedTuple):
    """Source position of an instruction's expression; None for a number that is not recorded.

    Lines count from 1. Columns count bytes of UTF-8 from 0, also in files of other encodings. `end_column` is the first
    one after the expression.
    """

    line: int | None
    end_line: int | None
    column: int | None
    end_column: int | None


def line_of(table: bytes, first_line: int, offset: int, version: tuple[int, ...]) -> int | None:
    """The line of the instruction at a byte offset of a code object.

    :param table: ``co_linetable``, before 3.10 ``co_lnotab``.
    :param first_line: ``co_firstlineno``.
    :param offset: bytes from the start of the code; negative before its first instruction.
    :return: None if the instruction belongs to no line, the table does not reach it, or the line is out of range.
    """
    if offset < 0:
        line: int | None = first_line  # like PyCode_Addr2Line; offset 0 may belong to another line
    elif version >= (3, 11):
        entry = _find_entry(table, first_line, offset)
        line = entry[0] if entry is not None else None
    elif version >= (3, 10):
        line = _by_ranges(table, first_line, offset)
    else:
        line = _by_increments(table, first_line, offset)
    return line if _is_valid(line) else None


def _is_valid(number: int | None) -> bool:
    return number is not None and 0 <= number <= _MAX


def _by_increments(table: bytes, first_line: int, offset: int) -> int | None:
    """CPython 3.9 and earlier, Objects/lnotab_notes.txt: (code delta, signed line delta) pairs."""
    line, address = first_line, 0
    for i in range(0, len(table) - 1, 2):
        address += table[i]
        if address > offset:
            break
        delta = table[i + 1]
        line += delta - 256 if delta >= 128 else delta
    return line


def _by_ranges(table: bytes, first_line: int, offset: int) -> int | None:
    """CPython 3.10, Objects/lnotab_notes.txt: (length, signed line delta) pairs; -128 is "no line"."""
    line, end = first_line, 0
    for i in range(0, len(table) - 1, 2):
        delta = table[i + 1] - 256 if table[i + 1] >= 128 else table[i + 1]
        end += table[i]
        if delta != -128:
            line += delta
        if offset < end:
            return None if delta == -128 else line
    return None


def positions_of(table: bytes, first_line: int, offset: int, version: tuple[int, ...]) -> Positions | None:
    """Lines and columns of the instruction at a byte offset of a code object; for the parameters see `line_of`.

    :return: None before CPython 3.11, and if the table does not reach the instruction. If the line is out of range,
        all numbers are None.
    """
    if version < (3, 11):
        return None
    if offset < 0:
        return Positions(first_line if _is_valid(first_line) else None, None, None, None)
    entry = _find_entry(table, first_line, offset)
    if entry is None:
        return None
    line, code, at = entry
    if line is None or not _is_valid(line):
        return Positions(None, None, None, None)
    found = _positions(table, line, code, at)
    return found if max(number or 0 for number in found) <= _MAX else Positions(line, line, None, None)


def _find_entry(table: bytes, first_line: int, offset: int) -> tuple[int | None, int, int] | None:
    """The line and kind of the entry for an instruction, and the index of its columns in the table."""
    end = 0
    for length, line, code, at in iter_entries(table, first_line):
        end += length
        if offset < end:
            return line, code, at
    return None


def _positions(table: bytes, line: int, code: int, at: int) -> Positions:
    """Decode an entry of a location table; `code` is its kind, `at` the index of its columns."""
    if code == 14:
        lines, at = _varint(table, at)
        column, at = _varint(table, at)
        end_column, at = _varint(table, at)
        if min(lines, column, end_column) < 0:
            return Positions(line, line, None, None)
        # counted from 1 here, 0 for none
        return Positions(line, line + lines, column - 1 if column else None, end_column - 1 if end_column else None)
    data = table[at:at + (0 if code == 13 else 2 if code >= 10 else 1)]
    if not data or max(data) >= 0x80 or (code >= 10 and len(data) < 2):
        return Positions(line, line, None, None)
    if code >= 10:
        return Positions(line, line, data[0], data[1])
    column = 8 * code + (data[0] >> 4)
    return Positions(line, line, column, column + (data[0] & 15))


def iter_entries(table: bytes, first_line: int) -> Iterator[tuple[int, int | None, int, int]]:
    """Decode a location table: length in bytes, line and kind of each entry, and the index of its columns in the table.

    Ends at the first damaged entry. Source: CPython 3.11 and later InternalDocs/code_objects.md (before 3.14
    Objects/locations.md).
    """
    line = first_line
    at = 0
    while at < len(table):
        head = table[at]
        at += 1
        if not head & 0x80:
            return
        code, units = head >> 3 & 15, (head & 7) + 1
        if code == 15:
            yield 2 * units, None, code, at
        else:
            if code in (13, 14):
                number, at = _varint(table, at)
                if number < 0:
                    return
                line += -(number >> 1) if number & 1 else number >> 1
            elif code in (10, 11, 12):
                line += code - 10
            yield 2 * units, line, code, at
        while at < len(table) and not table[at] & 0x80:  # columns
            at += 1


def _varint(table: bytes, at: int) -> tuple[int, int]:
    """A number in groups of six bits, the lowest first, and the index of its end; -1 for a damaged number."""
    number = shift = 0
    while at < len(table) and not table[at] & 0x80:
        byte = table[at]
        at += 1
        number |= (byte & 63) << shift
        shift += 6
        if not byte & 64:
            return number, at
        if shift > 60:  # more bits than any line or column has
            break
    return -1, at
