"""The functions at an address: the one whose code it is, and those that the compiler inlined there.

GDB 13.1 gdb/dwarf2/read.c (read_func_scope, read_lexical_block_scope, determine_prefix) decides what counts.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdbext.dwarf import units
from gdbext.dwarf.forms import SUP_REFERENCES, SUP_STRINGS
from gdbext.dwarf.units import Entry, Unit, Units

# DW_TAG_*
_CLASS, _ENUMERATION, _LEXICAL, _STRUCTURE, _UNION, _INLINED, _MODULE = 0x02, 0x04, 0x0B, 0x13, 0x17, 0x1D, 0x1E
_CATCH, _SUBPROGRAM, _TRY, _NAMESPACE, _INTERFACE = 0x25, 0x2E, 0x32, 0x39, 0x38
_TYPES = frozenset((_CLASS, _STRUCTURE, _UNION, _INTERFACE, _ENUMERATION))
_BLOCKS = frozenset((_LEXICAL, _TRY, _CATCH))
_OUTER = frozenset((_SUBPROGRAM, _NAMESPACE, _MODULE))
_SCOPES = _OUTER | _TYPES
_EVERYWHERE = _OUTER | _TYPES | _BLOCKS
_INSIDE = _BLOCKS | {_INLINED}
#: DW_LANG_* whose names have prefixes: C++, Rust, D, Fortran.
_RUST = 0x1C
_WITH_PREFIXES = frozenset((0x04, 0x1A, 0x21, 0x2B, 0x1C, 0x13, 0x07, 0x08, 0x0E, 0x22, 0x23))
#: Bounds: entries that refer to each other for one name, depths of entries, functions whose ranges overlap.
_MAX_REFERENCES, _MAX_DEPTH, _OVERLAPPING = 8, 200, 16


class Function(NamedTuple):
    """A function whose code has an address: where it begins, and its name or that of its symbol, mangled or not."""

    entry_pc: int
    linkage_name: str


class Call(NamedTuple):
    """A call of a function that the compiler inlined: the function's name, mangled or not, and the place of the call.

    `file` is the number of a file in the unit's line table.
    """

    name: str
    file: int
    line: int


class Functions:
    """The functions of a file's debug information.

    :param alternative: the units of the file that several files share (``.gnu_debugaltlink``).
    """

    def __init__(self, all_units: Units, alternative: Units | None) -> None:
        self._units = all_units
        self._alternative = alternative
        # (low, high, offset of the entry) by the start of the unit, and whether the functions in functions are there
        self._known: dict[tuple[int, bool], list[tuple[int, int, int]]] = {}

    def at(self, unit: Unit, address: int) -> tuple[Function | None, Sequence[Call]]:
        """The function whose code has an address, and the inlined calls there, innermost first.

        :raises CorruptStructure: the debug information contradicts itself.
        """
        for whole in (False, True):
            ranges = self._of_unit(unit, whole)
            # a range within another one begins later
            after = bisect.bisect_right(ranges, (address, 1 << 64, 0))
            for low, high, at in reversed(ranges[max(after - _OVERLAPPING, 0):after]):
                if low <= address < high:
                    own = unit.entry(at)
                    names, ranges_of_own = self._names(unit, own), unit.ranges(own)
                    if names is not None and ranges_of_own:
                        calls = list(self._calls(unit, own, address, 0))
                        return Function(ranges_of_own[0][0], names[1]), calls[::-1]
        return None, ()

    def _of_unit(self, unit: Unit, whole: bool) -> list[tuple[int, int, int]]:
        key = unit.header.start, whole
        if key not in self._known:
            self._known[key] = sorted(self._search(unit, unit.root, _EVERYWHERE if whole else _OUTER, 0))
        return self._known[key]

    def _search(self, unit: Unit, outer: Entry, tags: frozenset[int], depth: int) -> Iterator[tuple[int, int, int]]:
        """The ranges of functions inside an entry; if `tags` are all, also inside of functions and types."""
        for entry in unit.children(outer, tags) if depth < _MAX_DEPTH else ():
            if entry.tag == _SUBPROGRAM:
                for low, high in unit.ranges(entry) or ():
                    yield low, high, entry.at
            if entry.tag != _SUBPROGRAM or tags is _EVERYWHERE:
                yield from self._search(unit, entry, tags, depth + 1)

    def _calls(self, unit: Unit, outer: Entry, address: int, depth: int) -> Iterator[Call]:
        """The calls of functions inlined at an address, outermost first."""
        for entry in unit.children(outer, _INSIDE) if depth < _MAX_DEPTH else ():
            ranges = unit.ranges(entry)
            if ranges is None:
                if entry.tag == _INLINED:
                    continue  # it has no code
            elif not any(low <= address < high for low, high in ranges):
                continue
            if entry.tag == _INLINED:
                file, line = entry.number(units.CALL_FILE), entry.number(units.CALL_LINE)
                names = self._names(unit, entry)
                if file is None or line is None or names is None:
                    return
                yield Call(names[0], file, line)
            yield from self._calls(unit, entry, address, depth + 1)
            if ranges is not None:
                return

    # -- names ---------------------------------------------------------------------------------------------------

    def _names(self, unit: Unit, entry: Entry) -> tuple[str, str] | None:
        """The names of a function as an inlined one, and of its symbol; None without a name.

        Other entries may have them: the function without its place in the code, or its declaration.
        """
        plain = linkage = None
        owner = unit
        at = entry
        for _ in range(_MAX_REFERENCES):
            plain = plain or owner.text(at, units.NAME) or self._shared_text(at, units.NAME)
            linkage = linkage or next(filter(None, (
                owner.text(at, name) or self._shared_text(at, name)
                for name in (units.LINKAGE_NAME, units.MIPS_LINKAGE_NAME))), None)
            following = self._follow(owner, at)
            if following is None:
                break
            owner, at = following
        # a unit that several others share has no language
        language = unit.root.number(units.LANGUAGE)
        if plain is None:
            return None
        # mangled names of Rust's inlined functions are not known to GDB
        if linkage is not None and language != _RUST:
            return linkage, linkage
        prefix = self._prefix(owner, at) if language in _WITH_PREFIXES else ()
        name = "::".join([*prefix, plain])
        return name, linkage or name

    def _follow(self, unit: Unit, entry: Entry) -> tuple[Unit, Entry] | None:
        for attribute in (units.ABSTRACT_ORIGIN, units.SPECIFICATION):
            form, value = entry.attributes.get(attribute, (0, None))
            target = unit.reference(entry, attribute)
            if target is not None:
                head = unit.header
                if not head.start <= target < head.end:
                    unit = unit.units.containing(target)
                return unit, unit.entry(target)
            if form in SUP_REFERENCES and isinstance(value, int) and self._alternative is not None:
                unit = self._alternative.containing(value)
                return unit, unit.entry(value)
        return None

    def _shared_text(self, entry: Entry, attribute: int) -> str | None:
        form, value = entry.attributes.get(attribute, (0, None))
        if form in SUP_STRINGS and isinstance(value, int) and self._alternative is not None:
            return self._alternative.sections.string(".debug_str", value)
        return None

    def _prefix(self, unit: Unit, entry: Entry) -> list[str]:
        """The namespaces and classes around an entry."""
        found: list[str] = []
        for outer in unit.parents(entry.at, _SCOPES):
            name = unit.text(outer, units.NAME) or self._shared_text(outer, units.NAME)
            if outer.tag == _NAMESPACE:
                found.append(name or "(anonymous namespace)")
            elif outer.tag in _TYPES or outer.tag == _MODULE:
                found = [*self._type_prefix(unit, outer, found), *([name] if name else [])]
            else:
                found = []
        return found

    def _type_prefix(self, unit: Unit, outer: Entry, found: list[str]) -> list[str]:
        """The prefix of a class that is defined elsewhere than where it is declared."""
        following = self._follow(unit, outer)
        return self._prefix(*following) if following is not None else found
