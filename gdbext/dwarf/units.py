"""Units of debug information: their headers, and their entries with attributes (``.debug_info``, ``.debug_abbrev``).

Source: DWARF 5 sections 7.5 and 7.27; DWARF 4 section 7.5.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from gdbext.dwarf import forms
from gdbext.dwarf.forms import Abbreviation, Value, read_abbreviations, read_value, skip
from gdbext.dwarf.sections import DebugSections
from gdbext.elf.dwarf_cursor import DwarfCursor
from gdbext.errors import CorruptStructure
from gdbext.remembered import remembered

# DW_AT_*
SIBLING, NAME, STMT_LIST, LOW_PC, HIGH_PC, LANGUAGE, COMP_DIR = 0x01, 0x03, 0x10, 0x11, 0x12, 0x13, 0x1B
ABSTRACT_ORIGIN, SPECIFICATION, ENTRY_PC, RANGES, CALL_FILE, CALL_LINE = 0x31, 0x47, 0x52, 0x55, 0x58, 0x59
LINKAGE_NAME, MIPS_LINKAGE_NAME = 0x6E, 0x2007
STR_OFFSETS_BASE, ADDR_BASE, RNGLISTS_BASE, DWO_NAME = 0x72, 0x73, 0x74, 0x76
GNU_DWO_NAME, GNU_ADDR_BASE = 0x2130, 0x2133

_INFO = ".debug_info"
#: DW_UT_*: units of types, which have no code.
_TYPE_UNITS, _SKELETON_UNITS = (2, 6), (4, 5)
#: Bounds: units of a file, the size of a unit in bytes, ranges of an entry, entries between two checks of the time.
_MAX_UNITS, _MAX_UNIT, _MAX_RANGES, _OFTEN = 1 << 20, 1 << 28, 1 << 16, 1 << 12
_LAST_ADDRESS = (1 << 64) - 1


class Header(NamedTuple):
    """The header of a unit: offsets in the section of the unit, of its first entry and of its end."""

    start: int
    first: int
    end: int
    version: int
    offset_size: int
    abbreviations: int
    kind: int


class Entry(NamedTuple):
    """An entry: `at` is its offset in the section, `after` that of what follows its attributes."""

    at: int
    after: int
    tag: int
    has_children: bool
    attributes: Mapping[int, tuple[int, Value]]

    def number(self, attribute: int) -> int | None:
        """The value of an attribute that is a number."""
        value = self.attributes.get(attribute, (0, None))[1]
        return value if isinstance(value, int) else None


class Unit:
    """The entries of one unit.

    :raises CorruptStructure: the unit contradicts itself; so do all methods.
    """

    def __init__(self, units: Units, header: Header, abbreviations: Mapping[int, Abbreviation]) -> None:
        self.units = units
        self._sections = units.sections
        self.header = header
        self._abbreviations = abbreviations
        self._data: bytes | None = None
        self._count = 0

    @cached_property
    def root(self) -> Entry:
        """The first entry, which describes the unit."""
        head = self.header
        # many units are asked only for this entry
        data = self._sections.read(_INFO, head.start, min(head.end - head.start, 512))
        try:
            return self._entry(data, head.first)
        except CorruptStructure:
            return self.entry(head.first)

    @property
    def data(self) -> bytes:
        """The bytes of the unit with its header."""
        if self._data is None:
            self._sections.budget.check()
            self._data = self._sections.read(_INFO, self.header.start, self.header.end - self.header.start)
        return self._data

    @remembered
    def entry(self, at: int) -> Entry:
        """The entry at an offset of the section."""
        return self._entry(self.data, at)

    def _entry(self, data: bytes, at: int) -> Entry:
        cursor = DwarfCursor(data, 0)
        head = self.header
        if not head.first <= at < head.end:
            raise CorruptStructure(at, "an entry outside of its unit")
        cursor.at = at - head.start
        code = cursor.uleb()
        if not code:
            return Entry(at, at + 1, 0, False, {})
        abbreviation = self._abbreviation(code)
        attributes = {}
        for name, form, constant in abbreviation.attributes:
            if form == forms.INDIRECT:
                raise CorruptStructure(at, "an indirect form")
            attributes[name] = form, read_value(cursor, form, constant, head.version, head.offset_size)
        return Entry(at, head.start + cursor.at, abbreviation.tag, abbreviation.has_children, attributes)

    def _abbreviation(self, code: int) -> Abbreviation:
        found = self._abbreviations.get(code)
        if found is None:
            raise CorruptStructure(self.header.start, f"abbreviation {code} is missing")
        return found

    def children(self, entry: Entry, tags: frozenset[int]) -> Iterator[Entry]:
        """The direct children of an entry that have one of some tags."""
        if entry.has_children:
            yield from self._level(entry.after, tags)

    def _level(self, at: int, tags: frozenset[int]) -> Iterator[Entry]:
        data, start, known = self.data, self.header.start, self._abbreviations
        place, end = at - start, len(self.data)
        while place < end:
            self._tick()
            code, after = data[place], place + 1
            if code >= 0x80:
                code, after = _long_code(data, place)
            if not code:
                return
            shape = known.get(code) or self._abbreviation(code)
            if shape.tag in tags:
                entry = self.entry(place + start)
                yield entry
            place = self._end(place, after, shape)

    def _end(self, place: int, after: int, shape: Abbreviation) -> int:
        """Where an entry with all its children ends.

        :param place: of the entry in the unit.
        :param after: its abbreviation code.
        """
        data, known, size, depth, count = self.data, self._abbreviations, len(self.data), 0, 0
        try:
            while True:
                if shape.sibling_form:
                    at = skip(data, after, shape.to_sibling)
                    width = forms.fixed_size(shape.sibling_form, 4, 4)
                    sibling = int.from_bytes(data[at:at + width], "little") if width else _long_code(data, at)[0]
                    if not place < sibling <= size:
                        raise CorruptStructure(self.header.start + place, "the next entry is elsewhere")
                    place = sibling
                else:
                    place = skip(data, after, shape.steps)
                    depth += shape.has_children
                while True:
                    if not depth or place >= size:
                        return place
                    count += 1
                    if not count % _OFTEN:
                        self._sections.budget.check()
                    code, after = data[place], place + 1
                    if code >= 0x80:
                        code, after = _long_code(data, place)
                    if code:
                        break
                    depth -= 1
                    place = after
                shape = known.get(code) or self._abbreviation(code)
        except IndexError:
            raise CorruptStructure(self.header.start + place, "an entry ends early") from None

    def _tick(self) -> None:
        self._count += 1
        if not self._count % _OFTEN:
            self._sections.budget.check()

    def parents(self, at: int, tags: frozenset[int]) -> Sequence[Entry]:
        """The entries with one of some tags that contain an entry, outermost first."""
        scopes = self._scopes(tags)
        index = bisect.bisect_left(scopes, (at,)) - 1
        found: list[Entry] = []
        while index >= 0:
            start, end, parent = scopes[index]
            if at < end:
                found.append(self.entry(start))
            index = parent
        return found[::-1]

    @remembered
    def _scopes(self, tags: frozenset[int]) -> list[tuple[int, int, int]]:
        """All entries with one of some tags: (offset, end, index of the one that contains it or -1), by offset."""
        data, start, known = self.data, self.header.start, self._abbreviations
        place, size = self.root.after - start, len(self.data)
        found: list[tuple[int, int, int]] = []
        around: list[int] = []  # for each level the index in `found`, or -1
        current = -1
        try:
            while place < size:
                self._tick()
                code, after = data[place], place + 1
                if code >= 0x80:
                    code, after = _long_code(data, place)
                if not code:
                    place = after
                    if not around:
                        break
                    outer = around.pop()
                    if current != outer:
                        low, _, parent = found[current]
                        found[current] = low, place + start, parent
                    current = outer
                    continue
                shape = known.get(code) or self._abbreviation(code)
                if shape.has_children and shape.tag in tags:
                    around.append(current)
                    found.append((place + start, self.header.end, current))
                    current = len(found) - 1
                    place = skip(data, after, shape.steps)
                elif shape.has_children and not shape.sibling_form:
                    around.append(current)
                    place = skip(data, after, shape.steps)
                else:
                    place = self._end(place, after, shape)
        except IndexError:
            raise CorruptStructure(start + place, "an entry ends early") from None
        return found

    # -- values --------------------------------------------------------------------------------------------------

    def reference(self, entry: Entry, attribute: int) -> int | None:
        """The offset in the section of the entry that an attribute refers to; None if that is in another file."""
        form, value = entry.attributes.get(attribute, (0, None))
        if not isinstance(value, int):
            return None
        if form in forms.UNIT_REFERENCES:
            return self.header.start + value
        return value if form == forms.REF_ADDR else None

    def text(self, entry: Entry, attribute: int) -> str | None:
        """The string of an attribute; None without, or if it is in another file."""
        form, value = entry.attributes.get(attribute, (0, None))
        if isinstance(value, bytes):
            return value.decode("utf-8", "backslashreplace") if form == forms.STRING else None
        if value is None:
            return None
        if form in (forms.STRP, forms.LINE_STRP):
            return self._sections.string(".debug_str" if form == forms.STRP else ".debug_line_str", value)
        if form in forms.STRING_INDICES:
            size = self.header.offset_size
            base = self.root.number(STR_OFFSETS_BASE) or 0
            place = int.from_bytes(self._sections.read(".debug_str_offsets", base + value * size, size), "little")
            return self._sections.string(".debug_str", place)
        return None

    def address(self, form: int, value: Value | None) -> int | None:
        """The address that a value with a form gives; None if it gives none."""
        if not isinstance(value, int):
            return None
        if form == forms.ADDR:
            return value
        return self._indexed_address(value) if form in forms.ADDRESS_INDICES else None

    def _indexed_address(self, index: int) -> int:
        base = self.root.number(ADDR_BASE) or self.root.number(GNU_ADDR_BASE) or 0
        return int.from_bytes(self._sections.read(".debug_addr", base + index * 8, 8), "little")

    @cached_property
    def _base(self) -> int:
        return self.address(*self.root.attributes.get(LOW_PC, (0, None))) or 0

    def ranges(self, entry: Entry) -> Sequence[tuple[int, int]] | None:
        """The ranges [low, high) of an entry's code in link-time addresses; None if it has no such attributes.

        Empty: it has no code. What the linker has dropped is left out.
        """
        form, value = entry.attributes.get(RANGES, (0, None))
        if isinstance(value, int):
            found = self._list_5(form, value) if self.header.version >= 5 else self._list_4(value)
        else:
            low = self.address(*entry.attributes.get(LOW_PC, (0, None)))
            high_form, high_value = entry.attributes.get(HIGH_PC, (0, None))
            if low is None or not isinstance(high_value, int):
                return None
            high = self.address(high_form, high_value)
            found = iter([(low, high if high is not None else low + high_value)])
        # a linker places what it has dropped at 0, or at the highest addresses
        return [(low, high) for low, high in found if 0 < low < high <= _LAST_ADDRESS]

    def _list_4(self, offset: int) -> Iterator[tuple[int, int]]:
        base = self._base
        for index in range(_MAX_RANGES):
            pair = self._sections.read(".debug_ranges", offset + 16 * index, 16)
            low, high = int.from_bytes(pair[:8], "little"), int.from_bytes(pair[8:], "little")
            if low == _LAST_ADDRESS:
                base = high
            elif low or high:
                yield base + low, base + high
            else:
                return

    def _list_5(self, form: int, value: int) -> Iterator[tuple[int, int]]:
        section, base = ".debug_rnglists", self._base
        if form == forms.RNGLISTX:
            start = self.root.number(RNGLISTS_BASE) or 0
            size = self.header.offset_size
            value = start + int.from_bytes(self._sections.read(section, start + value * size, size), "little")
        data = self._sections.read(section, value, 1 << 12)
        if 0 not in data[-64:] or len(data) == 1 << 12:
            data = self._sections.read(section, value, 1 << 22)
        cursor = DwarfCursor(data, 0)
        for _ in range(_MAX_RANGES):
            kind = cursor.unsigned(1)
            if kind == 0:  # DW_RLE_end_of_list
                return
            if kind == 1:  # DW_RLE_base_addressx
                base = self._indexed_address(cursor.uleb())
            elif kind == 2:  # DW_RLE_startx_endx
                yield self._indexed_address(cursor.uleb()), self._indexed_address(cursor.uleb())
            elif kind == 3:  # DW_RLE_startx_length
                low = self._indexed_address(cursor.uleb())
                yield low, low + cursor.uleb()
            elif kind == 4:  # DW_RLE_offset_pair
                yield base + cursor.uleb(), base + cursor.uleb()
            elif kind == 5:  # DW_RLE_base_address
                base = cursor.unsigned(8)
            elif kind == 6:  # DW_RLE_start_end
                yield cursor.unsigned(8), cursor.unsigned(8)
            elif kind == 7:  # DW_RLE_start_length
                low = cursor.unsigned(8)
                yield low, low + cursor.uleb()
            else:
                raise CorruptStructure(value, "a list of ranges")


def _long_code(data: bytes, at: int) -> tuple[int, int]:
    cursor = DwarfCursor(data, 0)
    cursor.at = at
    return cursor.uleb(), cursor.at


class Units:
    """The units of one file."""

    def __init__(self, sections: DebugSections) -> None:
        self.sections = sections
        self._tables: dict[tuple[int, int, int], Mapping[int, Abbreviation]] = {}
        self._headers: list[Header] = []
        self._starts: list[int] = []
        self._next = 0

    @remembered
    def at(self, start: int) -> Unit:
        """The unit whose header is at an offset."""
        return self._unit(self._header(start))

    def _unit(self, head: Header) -> Unit:
        key = head.abbreviations, head.version, head.offset_size
        if key not in self._tables:
            data = self.sections.read(".debug_abbrev", head.abbreviations, 1 << 16)
            try:
                self._tables[key] = read_abbreviations(data, head.version, head.offset_size)
            except CorruptStructure:
                if len(data) < 1 << 16:
                    raise
                data = self.sections.read(".debug_abbrev", head.abbreviations, 1 << 24)
                self._tables[key] = read_abbreviations(data, head.version, head.offset_size)
        return Unit(self, head, self._tables[key])

    def containing(self, offset: int) -> Unit:
        """The unit that contains an entry.

        :raises CorruptStructure: no unit does.
        """
        if offset >= self._next:
            for head in self.headers():
                if offset < head.end:
                    break
        index = bisect.bisect_right(self._starts, offset) - 1
        if index < 0 or offset >= self._headers[index].end:
            raise CorruptStructure(offset, "an entry in no unit")
        return self.at(self._starts[index])

    def headers(self) -> Iterator[Header]:
        """The headers of all units in their order; each is read when it is needed."""
        yield from self._headers
        size = self.sections.size(_INFO)
        while self._next < size and len(self._headers) < _MAX_UNITS:
            if not len(self._headers) % 256:
                self.sections.budget.check()
            head = self._header(self._next)
            self._headers.append(head)
            self._starts.append(head.start)
            self._next = head.end
            yield head

    def _header(self, start: int) -> Header:
        cursor = DwarfCursor(self.sections.read(_INFO, start, 48), 0)
        length, offset_size = cursor.unsigned(4), 4
        if length == 0xFFFFFFFF:
            length, offset_size = cursor.unsigned(8), 8
        end = start + cursor.at + length
        version, kind = cursor.unsigned(2), 1
        if version >= 5:
            kind = cursor.unsigned(1)
            address_size, abbreviations = cursor.unsigned(1), cursor.unsigned(offset_size)
            cursor.take((8 + offset_size) * (kind in _TYPE_UNITS) + 8 * (kind in _SKELETON_UNITS))
        else:
            abbreviations, address_size = cursor.unsigned(offset_size), cursor.unsigned(1)
        if not 2 <= version <= 5 or address_size != 8 or not 0 < length <= _MAX_UNIT:
            raise CorruptStructure(start, f"a unit of version {version}")
        return Header(start, start + cursor.at, end, version, offset_size, abbreviations, kind)
