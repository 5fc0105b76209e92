"""Symbols of an ELF file without debug information, with the same names that GDB finds when it reads the whole file.

GDB reads, demangles and sorts every symbol of a file before it can name one address, which takes seconds for the
largest libraries. This module searches the table without sorting it. Among several symbols it makes GDB's choice
(GDB 13.1 gdb/minsyms.c, lookup_minimal_symbol_by_pc_section; gdb/elfread.c, elf_symtab_read). If that choice needs more
than the table, it raises `Undecided`, and GDB must read the file.

C structure: ELF gABI ``Elf64_Sym``.
"""

from __future__ import annotations

import bisect
import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdbext.elf.headers import SHF_EXECINSTR, SHF_TLS, SHT_DYNSYM, SHT_SYMTAB, FileSection, Read, read_sections
from gdbext.elf.notes import find_build_id
from gdbext.errors import CorruptStructure, GdbextError
from gdbext.inferior.protocol import Module

#: Elf64_Sym, and the offset of its address.
_SYM, _SYM_ADDRESS = struct.Struct("<IBBHQQ"), 8
_STB_LOCAL, _STB_GLOBAL, _STB_WEAK, _STB_GNU_UNIQUE = 0, 1, 2, 10
_STT_SECTION, _STT_FILE, _STT_TLS, _STT_GNU_IFUNC = 3, 4, 6, 10
#: Bounds: the number of symbols, and the size of one name in bytes.
_MAX_SYMBOLS, _MAX_NAME = 1 << 22, 1 << 16
#: Symbols are grouped in pages by the upper bits of their addresses; a search goes down over so many pages. Searching
#: the bytes of the table for one page takes a tenth of the time of sorting it, so the first few pages are searched.
_PAGE_BITS, _MAX_PAGES, _MAX_SEARCHES = 16, 64, 8
#: How many bytes of a section are searched at once: a multiple of the size of a symbol.
_PIECE = 24 << 18
#: Sections that describe code in more detail than symbol tables (``.gnu_debugdata`` is a compressed symbol table).
_DEBUG = (".debug_info", ".zdebug_info", ".debug_line", ".zdebug_line", ".gdb_index", ".gnu_debugdata", ".stab")


class Undecided(GdbextError):
    """The symbol table alone does not decide which name GDB would choose."""


class Entry(NamedTuple):
    """A symbol that GDB would keep, at a link-time address. `is_text`: a function that other files may see."""

    address: int
    size: int
    is_text: bool
    name: bytes


class SymbolFile:
    """The sections and symbols of an ELF file for x86-64.

    :raises CorruptStructure: `read_sections` does not accept the file.
    """

    def __init__(self, read: Read) -> None:
        self.read = read
        self.sections: Sequence[FileSection] = read_sections(read)
        self._table: FileSection | None = None
        self._symbols = b""
        self._pages: dict[int, Sequence[tuple[int, int]]] = {}
        self._addresses: list[int] = []
        self._order: list[int] = []

    def section(self, name: str) -> FileSection | None:
        """The section with a name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    @property
    def has_debug_information(self) -> bool:
        """Whether the file has more than symbol tables."""
        return any(section.name in _DEBUG for section in self.sections)

    @property
    def symbol_size(self) -> int:
        """The size of the table that GDB would read, with its names, in bytes."""
        table = self._choose_table()
        if table is None:
            return 0
        strings = self.sections[table.link].size if table.link < len(self.sections) else 0
        return table.size + strings

    def debug_link(self) -> tuple[str | None, int]:
        """(name, CRC-32) of the file with the debug information (``.gnu_debuglink``); (None, 0) without."""
        name, rest = self._link(".gnu_debuglink")
        # the checksum is at the next multiple of 4
        checksum = rest[-(len(name) + 1) % 4:][:4]
        return name.decode("utf-8", "surrogateescape") or None, int.from_bytes(checksum, "little")

    def shared_link(self) -> tuple[str | None, str]:
        """(path, build id in hexadecimal) of the file with shared debug information (``.gnu_debugaltlink``)."""
        name, build_id = self._link(".gnu_debugaltlink")
        return name.decode("utf-8", "surrogateescape") or None, build_id.hex()

    def _link(self, name: str) -> tuple[bytes, bytes]:
        section = self.section(name)
        data = self.read(section.offset, min(section.size, 4096)) if section is not None else b""
        path, _, rest = data.partition(b"\0")
        return path, rest

    def build_id(self) -> str | None:
        """The build id, in hexadecimal, or None."""
        return find_build_id(self.read)

    def bias(self, module: Module) -> int | None:
        """The value added to link-time addresses where the file is loaded; None if the module is another file."""
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
        """The name of the symbol that covers a link-time address, not demangled; None if none covers it.

        :raises Undecided: GDB's choice depends on more than the table.
        :raises CorruptStructure: the table cannot be read.
        """
        entry = self.find(address)
        return entry.name.decode("utf-8", "backslashreplace") if entry is not None else None

    def find(self, address: int) -> Entry | None:
        """Find the symbol that covers a link-time address; None if none covers it. For errors see `symbol`."""
        index = next((index for index, section in enumerate(self.sections)
                      if section.address and section.address <= address < section.address + section.size
                      and not section.flags & SHF_TLS), None)  # .tdata is a template, and .tbss is not in memory
        if index is None:
            return None
        section = self.sections[index]
        if section.name.startswith((".plt", ".got")):  # GDB makes symbols for the slots
            raise Undecided(f"{address:#x} is in {section.name}")
        entry = self._choose(self._iter_before(address, index), address)
        if entry is None or entry.size == 0 and not section.flags & SHF_EXECINSTR:
            return None
        return entry

    def address_of(self, name: str) -> int | None:
        """The link-time address of a symbol with a unique name, also of one that other files do not see.

        The names are searched as bytes, and then the table for the number of the name: a table with half a million
        symbols takes 0.1 s.

        :raises CorruptStructure: the table cannot be read.
        """
        table = self._choose_table()
        if table is None or table.link >= len(self.sections) or table.size // _SYM.size > _MAX_SYMBOLS:
            return None
        strings = self.sections[table.link]
        at = self._search_bytes(strings, b"\0" + name.encode() + b"\0", 1)
        if at is None:
            return None
        index = self._search_bytes(table, struct.pack("<I", at + 1), _SYM.size)
        entry = self.read(table.offset + index, _SYM.size) if index is not None else b""
        return _SYM.unpack(entry)[4] if len(entry) == _SYM.size else None

    def _search_bytes(self, section: FileSection, wanted: bytes, step: int) -> int | None:
        """The offset of some bytes in a section, a multiple of `step`; None if it does not have them."""
        for start in range(0, section.size, _PIECE):
            piece = self.read(section.offset + start, min(_PIECE + len(wanted), section.size - start))
            found = piece.find(wanted)
            while found >= 0 and (start + found) % step:
                found = piece.find(wanted, found + 1)
            if found >= 0:
                return start + found
        return None

    @staticmethod
    def _choose(entries: Iterator[Entry], address: int) -> Entry | None:
        """Make GDB's choice among the symbols at or before an address, which come in descending order."""
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

    def _iter_before(self, address: int, section: int) -> Iterator[Entry]:
        """Iterate over a section's symbols at or before an address, in descending order."""
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
        """The symbols in a page, sorted: (address, index)."""
        known = self._pages.get(number)
        if known is None:
            found = self._search(number) if len(self._pages) < _MAX_SEARCHES else self._slice(number)
            known = self._pages[number] = sorted(
                [(_SYM.unpack_from(self._symbols, _SYM.size * index)[4], index) for index in found])
        return known

    def _search(self, number: int) -> Sequence[int]:
        # find the upper bytes of the address in the bytes of the whole table
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
            addresses = memoryview(self._symbols).cast("Q")[1::3].tolist()
            # sorting indices is much faster than sorting pairs, and tables are nearly in order
            self._order = sorted(range(len(addresses)), key=addresses.__getitem__)
            self._addresses = sorted(addresses)
        low, high = (bisect.bisect_left(self._addresses, end << _PAGE_BITS) for end in (number, number + 1))
        return self._order[low:high]

    def _entry(self, index: int, section: int) -> Entry | None:
        name_at, info, _, own_section, address, size = _SYM.unpack_from(self._symbols, _SYM.size * index)
        binding, kind = info >> 4, info & 15
        if (own_section != section or kind in (_STT_SECTION, _STT_FILE, _STT_TLS)
                or binding not in (_STB_LOCAL, _STB_GLOBAL, _STB_WEAK, _STB_GNU_UNIQUE)):
            return None
        name = self._name(name_at)
        is_code = bool(self.sections[section].flags & SHF_EXECINSTR)
        if not name or is_code and binding == _STB_LOCAL and name.startswith((b".L", b"$L")):
            return None
        return Entry(address, size, is_code and binding != _STB_LOCAL and kind != _STT_GNU_IFUNC, name)

    def _name(self, at: int) -> bytes:
        assert self._table is not None
        strings = self.sections[self._table.link]
        for limit in (512, _MAX_NAME):
            name, end, _ = self.read(strings.offset + at, min(limit, max(strings.size - at, 0))).partition(b"\0")
            if end:
                return name
        raise CorruptStructure(strings.offset + at, "the name of a symbol has no end")

    def _choose_table(self) -> FileSection | None:
        """The table that GDB reads: exported symbols only if the file has no others."""
        for wanted in (SHT_SYMTAB, SHT_DYNSYM):
            for section in self.sections:
                if section.kind == wanted and section.size > _SYM.size:
                    return section
        return None

    def _load(self) -> None:
        if self._table is not None:
            return
        table = self._choose_table()
        if table is None:
            raise Undecided("the file has no symbols")
        if table.size // _SYM.size > _MAX_SYMBOLS or table.link >= len(self.sections):
            raise Undecided("the file's symbol table is too large")
        data = self.read(table.offset, table.size)
        self._symbols = data[:len(data) // _SYM.size * _SYM.size]
        self._table = table
