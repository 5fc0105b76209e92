"""Exported symbols of a loaded file, found in the target's memory as the dynamic linker finds them.

`.gnu.hash`, `.dynsym` and `.dynstr` remain after every strip, cost a few bytes of memory per file, and are the same in
a process and a core. Structures: ELF gABI ``Elf64_Sym``; GNU hash table as in glibc ``elf/dl-lookup.c``.
"""

from __future__ import annotations

import struct

from gdbext.elf.headers import find_segments, link_address, mapped_file
from gdbext.errors import MemoryUnreadable, if_unreadable
from gdbext.inferior.cache import read_cstring, read_u32, read_u64
from gdbext.inferior.protocol import Memory, Module
from gdbext.record import record

_SYM = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section index, value, size
_SHN_UNDEF = 0
_STT_TLS = 6
_PAGE = 4096
#: Longest hash chain to follow; real ones have a handful of entries.
_MAX_CHAIN = 4096
#: How many pages below the first section the ELF header may lie.
_HEADER_PAGES = 16


@record
class DynamicSymbol:
    """An exported symbol: its run-time address and size in bytes."""

    address: int
    size: int


def gnu_hash(name: bytes) -> int:
    """The hash of GNU symbol tables (glibc elf/dl-new-hash.h)."""
    value = 5381
    for char in name:
        value = (value * 33 + char) & 0xFFFFFFFF
    return value


def load_base(memory: Memory, module: Module) -> int:
    """The difference between run-time and link-time addresses of a module.

    It follows from the program headers; where a core does not have them, from the first section.

    :raises MemoryUnreadable: the module has no sections.
    """
    if not module.sections:
        raise MemoryUnreadable(0, 0)
    page = first_page(module)
    for header in range(page, max(page - _HEADER_PAGES * _PAGE, 0), -_PAGE):
        segments = find_segments(mapped_file(memory, header))
        linked = link_address(segments)
        if linked is not None:
            return header - linked
        if segments:
            break
    # position-independent files are linked at 0, others are loaded where they are linked
    return page if page >= 1 << 32 else 0


def first_page(module: Module) -> int:
    """The page of a module's first section; its ELF header is there or a little before."""
    return min(section.start for section in module.sections) & ~(_PAGE - 1)


@if_unreadable(None)
def find_dynamic_symbol(memory: Memory, module: Module, name: str) -> DynamicSymbol | None:
    """The exported, defined symbol of that name, or None. The module's sections must be known."""
    tables = [module.section(wanted) for wanted in (".gnu.hash", ".dynsym", ".dynstr")]
    if all(tables):
        return _by_gnu_hash(memory, module, name.encode(), *[table.start for table in tables if table])
    if module.section(".hash") and tables[1] and tables[2]:
        return _by_scan(memory, module, name.encode())
    return None


def _by_gnu_hash(memory: Memory, module: Module, name: bytes, table: int, symbols: int,
                 strings: int) -> DynamicSymbol | None:
    buckets, first, words, shift = struct.unpack("<4I", memory.read(table, 16))
    if not buckets or not words:
        return None
    value = gnu_hash(name)
    bloom = read_u64(memory, table + 16 + 8 * (value // 64 % words))
    if not bloom >> value % 64 & bloom >> (value >> shift) % 64 & 1:
        return None
    bucket_table = table + 16 + 8 * words
    index = read_u32(memory, bucket_table + 4 * (value % buckets))
    if index < first:
        return None
    chain = bucket_table + 4 * buckets
    for i in range(index, index + _MAX_CHAIN):
        entry = read_u32(memory, chain + 4 * (i - first))
        if (entry ^ value) >> 1 == 0:
            found = _symbol(memory, module, symbols + _SYM.size * i, strings, name)
            if found:
                return found
        if entry & 1:
            break
    return None


def _by_scan(memory: Memory, module: Module, name: bytes) -> DynamicSymbol | None:
    symbols, strings = module.section(".dynsym"), module.section(".dynstr")
    if not symbols or not strings:
        return None
    count = min((symbols.end - symbols.start) // _SYM.size, 1 << 16)
    for i in range(1, count):
        found = _symbol(memory, module, symbols.start + _SYM.size * i, strings.start, name)
        if found:
            return found
    return None


def _symbol(memory: Memory, module: Module, at: int, strings: int, name: bytes) -> DynamicSymbol | None:
    offset, info, _, section, value, size = _SYM.unpack(memory.read(at, _SYM.size))
    if section == _SHN_UNDEF or info & 15 == _STT_TLS:
        return None
    if read_cstring(memory, strings + offset, len(name) + 1) != name:
        return None
    return DynamicSymbol(value + load_base(memory, module), size)
