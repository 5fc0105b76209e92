"""Finds the frame description of a program counter in `.eh_frame`, by the table of `.eh_frame_hdr`.

Format: DWARF 5 section 6.4, Linux Standard Base 5.0 (`.eh_frame`, `.eh_frame_hdr`).
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator, Sequence

from gdbext.arch.frame_rules import CannotUnwind, Cie, Description
from gdbext.arch.protocol import ExceptionTable
from gdbext.elf.dwarf_cursor import INDIRECT, OMITTED, DwarfCursor
from gdbext.errors import CorruptStructure, MemoryUnreadable, if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.modules import TEMPLATES
from gdbext.inferior.protocol import Memory, Module, Section

#: Sizes that no real record exceeds, in bytes; a larger one means damaged data.
_MAX_RECORD = 1 << 16
#: The most bytes of a section without a table that are searched.
_MAX_SECTION = 4 << 20


def _pointer(cursor: DwarfCursor, encoding: int) -> int | None:
    """An encoded pointer, not followed if it is indirect; None for one that is left out or null."""
    if encoding == OMITTED:
        return None
    here = cursor.address + cursor.at
    value = cursor.encoded(encoding, 0)
    return value if value != (here if encoding & 0x70 == 0x10 else 0) else None


class FrameDescriptions:
    """The frame descriptions of one stop of one target.

    :param modules: all loaded files; those without ``.eh_frame_hdr`` have none here.
    :param return_column: the number of the register that stands for the return address.
    """

    def __init__(self, memory: Memory, modules: Sequence[Module], return_column: int) -> None:
        self._memory, self._return_column = memory, return_column
        # programs put code into sections of any name
        self._headers = sorted(((section.start, section.end, header) for module in modules
                                for header in [module.section(".eh_frame_hdr") or module.section(".eh_frame")]
                                if header is not None for section in module.sections
                                if section.name not in TEMPLATES), key=lambda item: item[0])
        #: (start of the code, place of its description) in order, by the start of a section that has no table.
        self._scanned: dict[int, list[tuple[int, int]]] = {}
        self._starts = [item[0] for item in self._headers]
        self._cies: dict[int, Cie] = {}
        self._functions: dict[int, tuple[int, int] | None] = {}

    def function_range(self, pc: int) -> tuple[int, int] | None:
        """Start and end of the function that covers a program counter (of a caller: less one), without symbols.

        The part of a function that a compiler moved elsewhere (``.cold``) counts as a function.
        """
        if pc not in self._functions:
            try:
                found = self.find(pc)
                self._functions[pc] = found.start, found.end
            except (CannotUnwind, CorruptStructure, MemoryUnreadable):
                self._functions[pc] = None
        return self._functions[pc]

    @if_unreadable(None)
    def exception_table(self, pc: int) -> ExceptionTable | None:
        """The exception table of the function that covers a program counter (of a caller: less one)."""
        try:
            found = self.find(pc)
        except CannotUnwind:
            return None
        cie, cursor = found.cie, found.augmentation
        if cie.personality is None or cursor is None:
            return None
        table = _pointer(cursor, cie.table_encoding)
        is_indirect, personality = cie.personality
        if table is None or cie.table_encoding & INDIRECT:
            return None
        return ExceptionTable(table, read_u64(self._memory, personality) if is_indirect else personality, found.start)

    def find(self, pc: int) -> Description:
        """The frame description of the code at a program counter (of a caller: its return address less one).

        :raises CannotUnwind: there is none, or it is unusual.
        """
        index = bisect.bisect_right(self._starts, pc) - 1
        if index < 0 or pc >= self._headers[index][1]:
            raise CannotUnwind(f"no file with frame descriptions contains {pc:#x}")
        header = self._headers[index][2]
        at = self._in_table(header, pc) if header.name == ".eh_frame_hdr" else self._in_section(header, pc)
        length = int.from_bytes(self._memory.read(at, 4), "little")
        if not 8 < length < _MAX_RECORD:
            raise CannotUnwind("an unusual frame description")
        body = DwarfCursor(self._memory.read(at + 4, length), at + 4)
        cie = self._cie(at + 4 - body.unsigned(4))
        start = body.encoded(cie.pointer_encoding, header.start)
        size = body.encoded(cie.pointer_encoding & 0x0F, 0)
        if not start <= pc < start + size:
            raise CannotUnwind(f"no frame description covers {pc:#x}")
        augmentation = None
        if cie.has_augmentation:
            length = body.uleb()
            augmentation = DwarfCursor(body.data[body.at:body.at + length], body.address + body.at)
            body.take(length)
        return Description(cie, start, start + size, body, augmentation)

    def _in_table(self, header: Section, pc: int) -> int:
        """The place of the description that may cover a program counter, by the table of ``.eh_frame_hdr``."""
        head = DwarfCursor(self._memory.read(header.start, min(header.end - header.start, 32)), header.start)
        version, _, count_encoding, table_encoding = head.take(4)
        head_encoding = head.data[1]
        if version != 1 or table_encoding != 0x3B or count_encoding == 0xFF:
            raise CannotUnwind("an unusual .eh_frame_hdr")
        head.encoded(head_encoding, header.start)
        count = head.encoded(count_encoding, header.start)
        table = header.start + head.at
        if not 0 < count <= (header.end - table) // 8:
            raise CorruptStructure(header.start, "the table of .eh_frame_hdr is larger than its section")
        read = self._memory.read

        def entry(i: int) -> int:
            return header.start + int.from_bytes(read(table + 8 * i, 4), "little", signed=True)

        low, high = 0, count
        while low + 1 < high:
            middle = (low + high) // 2
            if entry(middle) <= pc:
                low = middle
            else:
                high = middle
        return header.start + int.from_bytes(read(table + 8 * low + 4, 4), "little", signed=True)

    def _in_section(self, section: Section, pc: int) -> int:
        """As `_in_table`, for a program that was linked without a table, as with some compilers for musl."""
        if section.start not in self._scanned:
            self._scanned[section.start] = sorted(self._iter_section(section))
        found = self._scanned[section.start]
        index = bisect.bisect_right(found, (pc, 1 << 64)) - 1
        if index < 0:
            raise CannotUnwind(f"no frame description covers {pc:#x}")
        return found[index][1]

    def _iter_section(self, section: Section) -> Iterator[tuple[int, int]]:
        data = self._memory.read(section.start, min(section.end - section.start, _MAX_SECTION))
        at = 0
        while at + 8 <= len(data):
            length, back = struct.unpack_from("<II", data, at)
            if not 8 < length < _MAX_RECORD or at + 4 + length > len(data):
                return
            place = section.start + at
            if back:
                try:
                    encoding = self._cie(place + 4 - back).pointer_encoding
                    yield DwarfCursor(data[at + 8:at + 4 + length], place + 8).encoded(encoding, section.start), place
                except CannotUnwind:
                    pass
            at += 4 + length

    def _cie(self, at: int) -> Cie:
        known = self._cies.get(at)
        if known is not None:
            return known
        length = int.from_bytes(self._memory.read(at, 4), "little")
        if not 8 < length < _MAX_RECORD:
            raise CannotUnwind("an unusual common information entry")
        body = DwarfCursor(self._memory.read(at + 4, length), at + 4)
        if body.unsigned(4) != 0 or body.unsigned(1) not in (1, 3):
            raise CannotUnwind("not a common information entry")
        end = body.data.find(b"\0", body.at)
        if end < 0:
            raise CorruptStructure(at, "an augmentation string without end")
        augmentation = body.take(end - body.at).decode("ascii", "replace")
        body.take(1)
        code_align, data_align = body.uleb(), body.sleb()
        if body.uleb() != self._return_column:
            raise CannotUnwind("the return address is in an unusual register")
        encoding, is_signal = 0, False
        personality, table_encoding = None, OMITTED
        if augmentation.startswith("z"):
            stop = body.uleb() + body.at
            for letter in augmentation[1:]:
                if letter == "R":
                    encoding = body.unsigned(1)
                elif letter == "P":
                    form = body.unsigned(1)
                    pointer = _pointer(body, form)
                    personality = (bool(form & INDIRECT), pointer) if pointer is not None else None
                elif letter == "L":
                    table_encoding = body.unsigned(1)
                elif letter == "S":
                    is_signal = True
                elif letter == "B":  # return addresses are signed with the B key (arm64)
                    continue
                else:
                    break
            body.at = stop
        elif augmentation:
            raise CannotUnwind(f"augmentation {augmentation!r}")
        cie = Cie(code_align, data_align, encoding, augmentation.startswith("z"), is_signal, body.data[body.at:],
                   personality, table_encoding)
        self._cies[at] = cie
        return cie
