"""The function, source line and inlined calls at an address, from the debug information of one file.

All answers are those that GDB 13 gives: names of files, the function of several at an address, its line.
"""

from __future__ import annotations

from collections.abc import Callable

from gdbext.dwarf import units
from gdbext.dwarf.aranges import UnitRanges
from gdbext.dwarf.functions import Functions
from gdbext.dwarf.line_table import LineTable
from gdbext.dwarf.sections import Budget, DebugSections
from gdbext.dwarf.units import Unit, Units
from gdbext.elf.symtab import SymbolFile
from gdbext.errors import CorruptStructure
from gdbext.record import record
from gdbext.remembered import remembered

#: Most functions that are inlined into each other at one address.
_MAX_INLINED = 30


@record
class InlinedAt:
    """An inlined function, mangled or not, and the place that runs in it."""

    function: str
    file: str | None
    line: int | None


@record
class Place:
    """What debug information says of an address.

    `function` is the function whose code it is, mangled or not; None if the symbol table decides. `inlined` are the
    inlined functions, innermost first; `file` and `line` are those of the outermost call.
    """

    function: str | None
    file: str | None
    line: int | None
    inlined: tuple[InlinedAt, ...] = ()


class DebugInformation:
    """The debug information of one file.

    :param open_shared: opens the file that this one shares strings and entries with (``.gnu_debugaltlink``).
    """

    def __init__(self, file: SymbolFile, budget: Budget, open_shared: Callable[[], SymbolFile | None]) -> None:
        self._budget = budget
        self._sections = DebugSections(file, budget)
        self._units = Units(self._sections)
        self._ranges = UnitRanges(self._units)
        shared = open_shared() if file.section(".gnu_debugaltlink") is not None else None
        self._functions = Functions(self._units, Units(DebugSections(shared, budget)) if shared is not None else None)

    def find(self, address: int, symbol: int | None) -> Place | None:
        """Find the function, line and inlined calls at a link-time address; None if nothing is known of it.

        :param symbol: the address of the symbol that the symbol table has for the address.
        :raises CorruptStructure: the debug information contradicts itself, or cannot be read.
        :raises OutOfTime: there is no time left for it.
        """
        with self._budget.spending():
            unit = self._ranges.find(address)
            if unit is None:
                return None
            if units.DWO_NAME in unit.root.attributes or units.GNU_DWO_NAME in unit.root.attributes:
                raise CorruptStructure(0, "the debug information is in another file")
            return self._find(unit, address, symbol)

    def _find(self, unit: Unit, address: int, symbol: int | None) -> Place:
        own, calls = self._functions.at(unit, address)
        # a symbol in the middle of a function is that of a part that the compiler placed elsewhere
        name = own.linkage_name if own is not None and (symbol is None or symbol <= own.entry_pc) else None
        files = self._files(unit)
        found = files.find(address) if files is not None else None
        if files is None or found is None:
            return Place(name, None, None)
        file, line = files.name(found[0]), found[1]
        if own is None:  # assembly language
            return Place(name, file, None)
        inlined: list[InlinedAt] = []
        for call in calls[:_MAX_INLINED]:
            inlined.append(InlinedAt(call.name, file, line or None))
            file, line = files.name(call.file), call.line
        return Place(name, file, line or None, tuple(inlined))

    @remembered
    def _files(self, unit: Unit) -> _Files | None:
        offset = unit.root.number(units.STMT_LIST)
        return _Files(unit, self._table(offset)) if offset is not None else None

    @remembered
    def _table(self, offset: int) -> LineTable:
        return LineTable(self._sections, offset)


class _Files:
    """The lines of a unit, with the names of files that GDB shows."""

    def __init__(self, unit: Unit, table: LineTable) -> None:
        self._table = table
        self._folder = unit.text(unit.root, units.COMP_DIR) or ""
        self._main = unit.text(unit.root, units.NAME)
        self.find = table.find

    @remembered
    def name(self, number: int) -> str | None:
        """The name of a file by its number."""
        if not 0 <= number < len(self._table.files) or not self._table.files[number].name:
            return None
        name, folder = self._table.files[number]
        if not name.startswith("/") and folder is not None:
            name = f"{folder}/{name}"
        # one file may be named in two ways; that of the unit comes first
        if self._main is not None and self._whole(name) == self._whole(self._main):
            return self._main
        return name

    def _whole(self, name: str) -> str:
        return name if name.startswith("/") else f"{self._folder}/{name}"
