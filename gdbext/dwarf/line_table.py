"""Line tables: the source file and line of an address (``.debug_line``).

An address may have several rows. GDB decides which one counts (GDB 13.1 gdb/dwarf2/read.c, lnp_state_machine;
gdb/symtab.c, find_pc_sect_line; gdb/buildsym.c, record_line).

Source: DWARF 5 section 6.2.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdbext.dwarf.forms import LINE_STRP, STRING, STRP, read_value
from gdbext.dwarf.sections import DebugSections
from gdbext.elf.dwarf_cursor import DwarfCursor
from gdbext.errors import CorruptStructure

_SECTION = ".debug_line"
#: Bounds: files, folders, formats of a table, rows; and the size of one table in bytes.
_MAX_FILES, _MAX_FORMATS, _MAX_ROWS, _MAX_SIZE = 1 << 16, 16, 1 << 22, 1 << 27
#: So many instructions are executed between two checks of the time.
_OFTEN = 1 << 16
_LAST_ADDRESS = (1 << 64) - 1
_PATH, _DIRECTORY = 1, 2  # DW_LNCT_*


class SourceFile(NamedTuple):
    """A file of a line table, and the folder it is in by the table."""

    name: str
    folder: str | None


class _Sequence(NamedTuple):
    """Rows of ascending addresses [low, high), from `start` to `end` in the lists of the table."""

    low: int
    high: int
    start: int
    end: int


class LineTable:
    """The rows of one line table.

    :raises CorruptStructure: the table contradicts itself.
    :raises OutOfTime: see `Budget`.
    """

    def __init__(self, sections: DebugSections, offset: int) -> None:
        self._sections = sections
        self.files: Sequence[SourceFile] = ()
        self._sequences: list[_Sequence] = []
        self._addresses: list[int] = []
        self._files: list[int] = []
        # line << 1 | whether a statement begins there
        self._lines: list[int] = []
        self._read(offset)

    def find(self, address: int) -> tuple[int, int] | None:
        """(number of the file, line) of an address; None if the table does not have it."""
        for low, high, start, end in self._sequences:
            if low <= address < high:
                found = self._choose(address, start, end)
                if found is not None:
                    return found
        return None

    def _choose(self, address: int, start: int, end: int) -> tuple[int, int] | None:
        after = bisect.bisect_right(self._addresses, address, start, end)
        # GDB ignores rows without a line
        while after > start and self._lines[after - 1] < 2:
            after -= 1
        if after == start:
            return None
        here = self._addresses[after - 1]
        first = bisect.bisect_left(self._addresses, here, start, after)
        last_file = next((self._files[row] for row in range(first - 1, start - 1, -1) if self._lines[row] >= 2), None)
        rows: list[tuple[int, int, int]] = []
        has_statement = False
        for file, line, is_statement in [(self._files[row], self._lines[row] >> 1, self._lines[row] & 1)
                                         for row in range(first, after)]:
            if line > 0 and not (file != last_file and rows and not is_statement and has_statement):
                if file != last_file:
                    rows = []  # a row of another file that ends where it begins
                rows.append((file, line, is_statement))
                last_file = file
            has_statement = has_statement or bool(is_statement)
        statements = [row for row in rows if row[2]]
        file, line, _ = (statements or rows)[-1]
        return file, line

    # -- reading -------------------------------------------------------------------------------------------------

    def _read(self, offset: int) -> None:
        head = DwarfCursor(self._sections.read(_SECTION, offset, 12), 0)
        size, offset_size = head.unsigned(4), 4
        if size == 0xFFFFFFFF:
            size, offset_size = head.unsigned(8), 8
        if not 0 < size <= _MAX_SIZE:
            raise CorruptStructure(offset, "the size of a line table")
        cursor = DwarfCursor(self._sections.read(_SECTION, offset + head.at, size), 0)
        version = cursor.unsigned(2)
        if not 2 <= version <= 5:
            raise CorruptStructure(offset, f"line table of version {version}")
        if version >= 5:
            cursor.take(2)  # sizes of addresses and of segment selectors
        header_size = cursor.unsigned(offset_size)
        program = cursor.at + header_size
        shortest = cursor.unsigned(1)
        per_instruction = cursor.unsigned(1) if version >= 4 else 1
        starts_statement, line_base = cursor.unsigned(1), cursor.signed(1)
        line_range, opcode_base = cursor.unsigned(1), cursor.unsigned(1)
        lengths = cursor.take(max(opcode_base - 1, 0))
        if not line_range or not opcode_base or per_instruction > 1:  # VLIW processors have several
            raise CorruptStructure(offset, "the header of a line table")
        self.files = self._entries_5(cursor, offset_size) if version >= 5 else _entries_4(cursor)
        try:
            self._run(cursor.data, program, shortest, starts_statement, line_base, line_range, opcode_base, lengths)
        except IndexError:
            raise CorruptStructure(offset, "a line table ends early") from None

    def _entries_5(self, cursor: DwarfCursor, offset_size: int) -> list[SourceFile]:
        folders = [path for path, _ in self._entry_list(cursor, offset_size)]
        return [SourceFile(path, folders[folder] if folder < len(folders) else None)
                for path, folder in self._entry_list(cursor, offset_size)]

    def _entry_list(self, cursor: DwarfCursor, offset_size: int) -> Iterator[tuple[str, int]]:
        count = cursor.unsigned(1)
        if count > _MAX_FORMATS:
            raise CorruptStructure(cursor.at, "the format of files in a line table")
        formats = [(cursor.uleb(), cursor.uleb()) for _ in range(count)]
        for _ in range(_bounded(cursor.uleb())):
            path, folder = "", 0
            for content, form in formats:
                value = read_value(cursor, form, 0, 5, offset_size)
                if content == _PATH:
                    path = self._text(form, value)
                elif content == _DIRECTORY and isinstance(value, int):
                    folder = value
            yield path, folder

    def _text(self, form: int, value: int | bytes) -> str:
        if form == STRING and isinstance(value, bytes):
            return value.decode("utf-8", "backslashreplace")
        if form in (LINE_STRP, STRP) and isinstance(value, int):
            return self._sections.string(".debug_line_str" if form == LINE_STRP else ".debug_str", value)
        raise CorruptStructure(0, f"a file name of form {form:#x}")

    def _run(self, data: bytes, at: int, shortest: int, starts_statement: int, line_base: int, line_range: int,
             opcode_base: int, lengths: bytes) -> None:
        """Execute the program of the table."""
        addresses, files, lines = self._addresses, self._files, self._lines
        advances = [(max(op - opcode_base, 0) // line_range) * shortest for op in range(256)]
        steps = [(line_base + max(op - opcode_base, 0) % line_range) * 2 for op in range(256)]
        is_statement = starts_statement & 1
        address, file, line = 0, 1, 2  # twice the line
        # GDB drops rows that repeat a line which has several blocks
        block = blocks = False
        last = (0, 0)
        # GDB ignores a row of another file that begins no statement where one has begun
        last_address, has_statement = -1, 0
        start, count, end = 0, 0, len(data)
        cursor = DwarfCursor(data, 0)
        while at < end:
            op = data[at]
            at += 1
            count += 1
            if not count % _OFTEN:
                self._sections.budget.check()
                if len(addresses) > _MAX_ROWS:
                    raise CorruptStructure(at, "a line table has too many rows")
            if op >= opcode_base:
                address += advances[op]
                if steps[op]:
                    line += steps[op]
                    blocks = block
            elif op == 1:  # DW_LNS_copy
                pass
            elif op == 0:
                cursor.at = at
                size = cursor.uleb()
                at = cursor.at + size
                what = cursor.take(size)
                if what[:1] == b"\2":  # DW_LNE_set_address
                    address = int.from_bytes(what[1:9], "little")
                elif what[:1] == b"\1":  # DW_LNE_end_sequence
                    # a linker places functions that it has dropped at 0
                    if len(addresses) > start and addresses[start] and addresses[start] < address <= _LAST_ADDRESS:
                        self._add_sequence(start, address)
                    start = len(addresses)
                    is_statement, address, file, line = starts_statement & 1, 0, 1, 2
                    block = blocks = False
                    last = (0, 0)
                elif what[:1] == b"\4":  # DW_LNE_set_discriminator
                    block = what[1:] != b"\0"
                    blocks = blocks or block
                continue
            elif op == 6:  # DW_LNS_negate_stmt
                is_statement ^= 1
                continue
            elif op == 8:  # DW_LNS_const_add_pc
                address += advances[255]
                continue
            elif op == 9:  # DW_LNS_fixed_advance_pc
                address += int.from_bytes(data[at:at + 2], "little")
                at += 2
                continue
            elif op in (7, 10, 11):  # basic blocks, ends of prologues and starts of epilogues
                continue
            elif op == 5 and data[at] < 0x80:  # DW_LNS_set_column; nearly all operands have one byte
                at += 1
                continue
            else:
                cursor.at = at
                if op == 2:  # DW_LNS_advance_pc
                    address += cursor.uleb() * shortest
                elif op == 3:  # DW_LNS_advance_line
                    line += cursor.sleb() * 2
                    blocks = block
                elif op == 4:  # DW_LNS_set_file
                    file = cursor.uleb()
                else:  # DW_LNS_set_isa, and unknown ones
                    for _ in range(lengths[op - 1]):
                        cursor.uleb()
                at = cursor.at
                continue
            block = False
            if address != last_address:
                last_address, has_statement = address, 0
            is_ignored = has_statement > is_statement and file != last[0]
            has_statement |= is_statement
            if not is_ignored and (not blocks or last != (file, line)):
                addresses.append(address)
                files.append(file)
                lines.append(line | is_statement)
                last = file, line

    def _add_sequence(self, start: int, high: int) -> None:
        low, end = self._addresses[start], len(self._addresses)
        own = self._addresses[start:end]
        if own != sorted(own):  # no compiler does that
            order = sorted(range(start, end), key=self._addresses.__getitem__)
            for column in (self._addresses, self._files, self._lines):
                column[start:end] = [column[row] for row in order]
        self._sequences.append(_Sequence(min(low, self._addresses[start]), high, start, end))


def _entries_4(cursor: DwarfCursor) -> list[SourceFile]:
    folders: list[str | None] = [None]
    while True:
        folder = _take_string(cursor)
        if not folder:
            break
        folders.append(folder)
        _bounded(len(folders))
    files = [SourceFile("", None)]  # they are numbered from 1
    while True:
        name = _take_string(cursor)
        if not name:
            return files
        folder_number = cursor.uleb()
        cursor.uleb()  # when it was changed, and its size
        cursor.uleb()
        files.append(SourceFile(name, folders[folder_number] if folder_number < len(folders) else None))
        _bounded(len(files))


def _take_string(cursor: DwarfCursor) -> str:
    value = read_value(cursor, STRING, 0, 4, 4)
    assert isinstance(value, bytes)
    return value.decode("utf-8", "backslashreplace")


def _bounded(count: int) -> int:
    if count > _MAX_FILES:
        raise CorruptStructure(0, "a line table has too many files")
    return count
