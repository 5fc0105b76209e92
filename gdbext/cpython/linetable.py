"""From an instruction to a line: the line tables of code objects, in all three formats. Pure bytes."""

from __future__ import annotations

from collections.abc import Iterator


def line_of(table: bytes, first_line: int, offset: int, version: tuple[int, ...]) -> int | None:
    """The line of the instruction at a byte offset of a code object.

    :param table: ``co_linetable``, before 3.10 ``co_lnotab``.
    :param first_line: ``co_firstlineno``.
    :param offset: bytes from the start of the code; negative before its first instruction.
    :return: None where the instruction belongs to no line, or the table does not reach it.
    """
    if offset < 0:
        return first_line  # as PyCode_Addr2Line has it; what begins at offset 0 may be another line
    if version >= (3, 11):
        return _by_locations(table, first_line, offset)
    if version >= (3, 10):
        return _by_ranges(table, first_line, offset)
    return _by_increments(table, first_line, offset)


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


def _by_locations(table: bytes, first_line: int, offset: int) -> int | None:
    """CPython 3.11 and later, InternalDocs/code_objects.md (before 3.14 Objects/locations.md)."""
    end = 0
    for length, line in iter_locations(table, first_line):
        end += length
        if offset < end:
            return line
    return None


def iter_locations(table: bytes, first_line: int) -> Iterator[tuple[int, int | None]]:
    """(length in bytes, line) of each entry of a location table; ends at the first entry that is damaged."""
    line = first_line
    at = 0
    while at < len(table):
        head = table[at]
        at += 1
        if not head & 0x80:
            return
        code, units = head >> 3 & 15, (head & 7) + 1
        if code == 15:
            yield 2 * units, None
        else:
            if code in (13, 14):
                number = shift = 0
                while at < len(table):
                    byte = table[at]
                    at += 1
                    number |= (byte & 63) << shift
                    shift += 6
                    if not byte & 64:
                        break
                    if shift > 60:  # no line has such a number; longer ones would take ever longer to add up
                        return
                line += -(number >> 1) if number & 1 else number >> 1
            elif code in (10, 11, 12):
                line += code - 10
            yield 2 * units, line
        while at < len(table) and not table[at] & 0x80:  # columns
            at += 1
