"""Which unit describes the code at an address: ``.debug_aranges``, and the units' own ranges.

Source: DWARF 5 section 6.1.2.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from functools import cached_property

from gdbext.dwarf.units import LOW_PC, RANGES, Unit, Units
from gdbext.errors import CorruptStructure

_SECTION = ".debug_aranges"
_PAIR = struct.Struct("<QQ")
#: A header: length, version, offset of the unit, sizes of addresses and of segment selectors.
_HEAD, _LONG_HEAD = struct.Struct("<IHIBB"), struct.Struct("<4xQHQBB")
#: The length of a unit whose offsets have 64 bits.
_LONG = b"\xff\xff\xff\xff"
#: The largest size of the section in bytes.
_MAX_SIZE = 1 << 27
#: Most ranges that overlap each other.
_OVERLAPPING = 16


class UnitRanges:
    """Finds the unit of an address."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def find(self, address: int) -> Unit | None:
        """The unit that describes the code at a link-time address; None if no unit does.

        :raises CorruptStructure: the debug information contradicts itself.
        """
        start = _find(self._listed, address)
        if start is None:
            start = _find(self._own, address)
        return self._units.at(start) if start is not None else None

    @cached_property
    def _listed(self) -> list[tuple[int, int, int]]:
        """The ranges of ``.debug_aranges``: (low, high, offset of the unit), in ascending order."""
        return sorted(self._iter_listed())

    def _iter_listed(self) -> Iterator[tuple[int, int, int]]:
        sections = self._units.sections
        size = sections.size(_SECTION)
        if not 0 < size <= _MAX_SIZE:
            return
        data, at = sections.read(_SECTION, 0, size), 0
        while at < len(data):
            sections.budget.check()
            is_long = data.startswith(_LONG, at)
            head, length_size = (_LONG_HEAD, 12) if is_long else (_HEAD, 4)
            if len(data) - at < head.size:
                raise CorruptStructure(at, "ranges of units end early")
            length, version, start, address_size, selector_size = head.unpack_from(data, at)
            if version != 2 or address_size != 8 or selector_size or not length:
                raise CorruptStructure(at, f"ranges of units of version {version}")
            end = at + length_size + length
            pairs = data[at + head.size + -head.size % _PAIR.size:end]
            for low, size in _PAIR.iter_unpack(pairs[:len(pairs) // _PAIR.size * _PAIR.size]):
                if low and size:
                    yield low, low + size, start
            at = end

    @cached_property
    def _own(self) -> list[tuple[int, int, int]]:
        """The ranges of units that ``.debug_aranges`` does not have, as `_listed`."""
        listed = {start for _, _, start in self._listed}
        found = []
        for head in self._units.headers():
            if head.start not in listed:
                unit = self._units.at(head.start)
                if LOW_PC in unit.root.attributes or RANGES in unit.root.attributes:
                    found += [(low, high, head.start) for low, high in unit.ranges(unit.root) or ()]
        return sorted(found)


def _find(ranges: list[tuple[int, int, int]], address: int) -> int | None:
    after = bisect.bisect_right(ranges, (address, 1 << 64, 0))
    return next((start for low, high, start in reversed(ranges[max(after - _OVERLAPPING, 0):after])
                 if low <= address < high), None)
