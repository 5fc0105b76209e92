"""Symbols of an ELF file that has no debug information, told as GDB tells them once it has read the whole file.

GDB reads, demangles and sorts every symbol of a file before it can name one address, which takes seconds for the
largest libraries. Here the table is searched as it is. Which of several symbols counts is GDB's choice (GDB 13.1
gdb/minsyms.c, lookup_minimal_symbol_by_pc_section; gdb/elfread.c, elf_symtab_read), so that both give the same name.
Where that rests on more than the table, GDB has to be asked: `Undecided`.

C structure: ELF gABI ``Elf64_Sym``.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdbext.elf.headers import SHF_EXECINSTR, SHF_TLS, SHT_DYNSYM, SHT_SYMTAB, FileSection, Read, read_sections
from gdbext.elf.notes import find_build_id
from gdbext.errors import CorruptStructure, GdbextError
from gdbext.inferior.protocol import Module

_SYM, _SYM_ADDRESS = struct.Struct("<IBBHQQ"), 8
_STB_LOCAL, _STB_GLOBAL, _STB_WEAK, _STB_GNU_UNIQUE = 0, 1, 2, 10
_STT_SECTION, _STT_FILE, _STT_TLS, _STT_GNU_IFUNC = 3, 4, 6, 10
#: Bounds of what is read: the number of symbols, and the size of one name in bytes.
_MAX_SYMBOLS, _MAX_NAME = 1 << 22, 1 << 16
#: Symbols are looked for by address without so many bits, downwards over so many such pages. Searching the bytes of the
#: table for one costs a tenth of sorting it, which pays off after some.
_PAGE_BITS, _MAX_PAGES, _MAX_SEARCHES = 16, 64, 8
#: Where more is told of the code than by symbol tables (``.gnu_debugdata`` is a table of its own, compressed).
_DEBUG = (".debug_info", ".zdebug_info", ".debug_line", ".zdebug_line", ".gdb_index", ".gnu_debugdata", ".stab")


class Undecided(GdbextError):
    """What GDB would say does not follow from the symbol table alone."""


class _Entry(NamedTuple):
    """A symbol that GDB would know: `is_text` for a function that other files may see."""

    address: int
    size: int
    is_text: bool
    name: bytes


class SymbolFile:
    """The sections and symbols of an ELF file for x86-64.

    :param read: gives bytes of the file; they may be fewer than asked for.
    :raises CorruptStructure: it is no such file, see `read_sections`.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self.sections: Sequence[FileSection] = read_sections(read)
        self._table: FileSection | None = None
        self._symbols = b""
        self._pages: dict[int, Sequence[tuple[int, int]]] = {}
        self._addresses: list[int] = []
        self._order: list[int] = []

    def section(self, name: str) -> FileSection | None:
        """The section of that name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    @property
    def has_debug_information(self) -> bool:
        """Whether the file itself tells more than its symbol tables."""
        return any(section.name in _DEBUG for section in self.sections)

    @property
    def symbol_size(self) -> int:
        """How large the table is that GDB would read, with its names, in bytes."""
        table = self._chosen()
        if table is None:
            return 0
        strings = self.sections[table.link].size if table.link < len(self.sections) else 0
        return table.size + strings

    def debug_link(self) -> str | None:
        """The name of the file that has the debug information (``.gnu_debuglink``), or None."""
        section = self.section(".gnu_debuglink")
        if section is None:
            return None
        name = self._read(section.offset, min(section.size, 4096)).partition(b"\0")[0]
        return name.decode("utf-8", "surrogateescape") or None

    def build_id(self) -> str | None:
        """The build id, in hexadecimal, or None."""
        return find_build_id(self._read)

    def bias(self, module: Module) -> int | None:
        """What is added to link-time addresses where the file is loaded; None if the module is not of this file."""
        known = {(section.name, section.address, section.size) for section in self.sections}
        by_name = {section.name: section for section in self.sections}
        first = next((section for section in module.sections if section.name in by_name), None)
        if first is None:
            return None
        bias = first.start - by_name[first.name].address
        fits = all((section.name, section.start - bias, section.end - section.start) in known
                   for section in module.sections)
        return bias if fits else None

    def symbol(self, address: int) -> str | None:
        """The name of the symbol that covers a link-time address, as the table has it; None where none does.

        :raises Undecided: GDB has more to go by.
        :raises CorruptStructure: the table cannot be read.
        """
        index = next((index for index, section in enumerate(self.sections)
                      if section.address and section.address <= address < section.address + section.size
                      and not section.flags & SHF_TLS), None)  # those are templates, .tbss is not even in memory
        if index is None:
            return None
        section = self.sections[index]
        if section.name.startswith((".plt", ".got")):  # GDB makes symbols for the slots
            raise Undecided(f"{address:#x} lies in {section.name}")
        entry = self._best(self._before(address, index), address)
        if entry is None or entry.size == 0 and not section.flags & SHF_EXECINSTR:
            return None
        return entry.name.decode("utf-8", "backslashreplace")

    @staticmethod
    def _best(entries: Iterator[_Entry], address: int) -> _Entry | None:
        """GDB's choice among symbols.

        :param entries: those at or before the address, the last one first.
        """
        unsized = None
        entry = next(entries, None)
        while entry is not None:
            before = next(entries, None)
            if (before is not None and not entry.is_text and before.is_text
                    and (entry.address, entry.size) == (before.address, before.size)):
                pass
            elif entry.size == 0:
                unsized = unsized or entry
            elif not (before is not None and entry.address + entry.size <= address < before.address + before.size):
                break
            entry = before
        if entry is None or address >= entry.address + entry.size:
            return unsized
        return entry

    def _before(self, address: int, section: int) -> Iterator[_Entry]:
        """The symbols of a section that are not above an address, the last one first."""
        self._load()
        page = address >> _PAGE_BITS
        for number in range(page, max(page - _MAX_PAGES, -1), -1):
            if (number + 1 << _PAGE_BITS) <= self.sections[section].address:
                return
            below = [(at, index) for at, index in self._page(number) if at <= address]
            for _, same in itertools.groupby(reversed(below), lambda pair: pair[0]):
                entries = [self._entry(index, section) for _, index in same]
                yield from sorted([entry for entry in entries if entry is not None], key=lambda entry: entry.name,
                                  reverse=True)
        if page >= _MAX_PAGES:
            raise Undecided(f"there are no symbols near {address:#x}")

    def _page(self, number: int) -> Sequence[tuple[int, int]]:
        """(address, index) of the symbols whose addresses without the lowest bits are a number, in order."""
        known = self._pages.get(number)
        if known is None:
            found = self._search(number) if len(self._pages) < _MAX_SEARCHES else self._slice(number)
            known = self._pages[number] = sorted(
                [(int.from_bytes(self._symbols[at + _SYM_ADDRESS:at + _SYM_ADDRESS + 8], "little"), at // _SYM.size)
                 for at in (index * _SYM.size for index in found)])
        return known

    def _search(self, number: int) -> Sequence[int]:
        # the upper bytes of the address are looked for in the bytes of the whole table
        wanted = number.to_bytes(8 - _PAGE_BITS // 8, "little")
        before = _SYM_ADDRESS + _PAGE_BITS // 8
        found = []
        at = self._symbols.find(wanted, before)
        while at >= 0:
            index, rest = divmod(at - before, _SYM.size)
            if rest == 0:
                found.append(index)
            at = self._symbols.find(wanted, at + 1)
        return found

    def _slice(self, number: int) -> Sequence[int]:
        if not self._order:
            # Elf64_Sym is three words, the second of which is the address
            self._addresses = memoryview(self._symbols).cast("Q")[1::3].tolist()
            # indices are sorted much faster than pairs, and tables are nearly in order
            self._order = sorted(range(len(self._addresses)), key=self._addresses.__getitem__)
        return self._order[self._count_below(number << _PAGE_BITS):self._count_below(number + 1 << _PAGE_BITS)]

    def _count_below(self, address: int) -> int:
        low, high = 0, len(self._order)  # `bisect` cannot be told to look up an index before Python 3.10
        while low < high:
            middle = (low + high) // 2
            if self._addresses[self._order[middle]] < address:
                low = middle + 1
            else:
                high = middle
        return low

    def _entry(self, index: int, section: int) -> _Entry | None:
        name_at, info, _, own_section, address, size = _SYM.unpack_from(self._symbols, _SYM.size * index)
        binding, kind = info >> 4, info & 15
        if (own_section != section or kind in (_STT_SECTION, _STT_FILE, _STT_TLS)
                or binding not in (_STB_LOCAL, _STB_GLOBAL, _STB_WEAK, _STB_GNU_UNIQUE)):
            return None
        name = self._name(name_at)
        is_code = bool(self.sections[section].flags & SHF_EXECINSTR)
        if not name or is_code and binding == _STB_LOCAL and name.startswith((b".L", b"$L")):
            return None
        return _Entry(address, size, is_code and binding != _STB_LOCAL and kind != _STT_GNU_IFUNC, name)

    def _name(self, at: int) -> bytes:
        assert self._table is not None
        strings = self.sections[self._table.link]
        for limit in (512, _MAX_NAME):
            name, end, _ = self._read(strings.offset + at, min(limit, max(strings.size - at, 0))).partition(b"\0")
            if end:
                return name
        raise CorruptStructure(strings.offset + at, "the name of a symbol has no end")

    def _chosen(self) -> FileSection | None:
        """The table that GDB reads: exported symbols count only if the file has no others."""
        for wanted in (SHT_SYMTAB, SHT_DYNSYM):
            for section in self.sections:
                if section.kind == wanted and section.size > _SYM.size:
                    return section
        return None

    def _load(self) -> None:
        if self._table is not None:
            return
        table = self._chosen()
        if table is None:
            raise Undecided("the file has no symbols")
        if table.kind == SHT_DYNSYM and self.section(".gnu.version_d") is not None:
            raise Undecided("the file's symbols have versions")  # GDB's names have them too
        if table.size // _SYM.size > _MAX_SYMBOLS or table.link >= len(self.sections):
            raise Undecided("the file's symbol table is too large")
        data = self._read(table.offset, table.size)
        self._symbols = data[:len(data) // _SYM.size * _SYM.size]
        self._table = table
