"""Exported symbols of a loaded file, found in the target's memory as the dynamic linker finds them.

Stripping does not remove `.gnu.hash`, `.dynsym` and `.dynstr`; a search reads a few bytes of them, the same in a
process and a core. Structures: ELF gABI ``Elf64_Sym``; GNU hash table as in glibc ``elf/dl-lookup.c``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gdbext.elf.headers import find_segments, link_address, mapped_file
from gdbext.errors import MemoryUnreadable, if_unreadable
from gdbext.inferior.cache import PAGE, read_cstring, read_u32, read_u64
from gdbext.inferior.protocol import Memory, Module
from gdbext.record import record

_SYM = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section index, value, size
_RELA = struct.Struct("<QQq")  # Elf64_Rela: offset, info, addend
_MAX_NAME = 256
_SHN_UNDEF = 0
_STT_TLS = 6
#: The longest hash chain that is followed; real chains have a few entries.
_MAX_CHAIN = 4096
#: How many pages before the first section the ELF header may be.
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

    It is computed from the program headers; if a core lacks them, from the first section.

    :raises MemoryUnreadable: the module has no sections.
    """
    if not module.sections:
        raise MemoryUnreadable(0, 0)
    page = first_page(module)
    for header in range(page, max(page - _HEADER_PAGES * PAGE, 0), -PAGE):
        segments = find_segments(mapped_file(memory, header))
        linked = link_address(segments)
        if linked is not None:
            return header - linked
        if segments:
            break
    # position-independent files are linked at 0, others are loaded where they are linked
    return page if page >= 1 << 32 else 0


def first_page(module: Module) -> int:
    """The page of a module's first section. The ELF header is on that page or shortly before it."""
    return min(section.start for section in module.sections) & ~(PAGE - 1)


@if_unreadable(None)
def find_dynamic_symbol(memory: Memory, module: Module, name: str) -> DynamicSymbol | None:
    """The exported, defined symbol with a name, or None. The module's sections must be known."""
    symbols, strings = module.section(".dynsym"), module.section(".dynstr")
    if symbols is None or strings is None:
        return None
    table = module.section(".gnu.hash")
    if table is not None:
        candidates = _iter_hashed(memory, table.start, name.encode())
    elif module.section(".hash"):
        candidates = iter(range(1, min((symbols.end - symbols.start) // _SYM.size, 1 << 16)))
    else:
        return None
    found = (_read_symbol(memory, module, symbols.start + _SYM.size * index, strings.start, name.encode())
             for index in candidates)
    return next((symbol for symbol in found if symbol is not None), None)


@if_unreadable(None)
def name_of_slot(memory: Memory, module: Module, index: int) -> str | None:
    """The name of the function for which a slot of the linkage table is, by the index of its relocation; or None."""
    relocations, symbols, strings = (module.section(name) for name in (".rela.plt", ".dynsym", ".dynstr"))
    if relocations is None or symbols is None or strings is None:
        return None
    if index >= (relocations.end - relocations.start) // _RELA.size:
        return None
    _, info, _ = _RELA.unpack(memory.read(relocations.start + _RELA.size * index, _RELA.size))
    symbol = memory.read(symbols.start + _SYM.size * (info >> 32), _SYM.size)
    name = read_cstring(memory, strings.start + _SYM.unpack(symbol)[0], _MAX_NAME)
    return name.decode("ascii", "replace") if name else None


def _iter_hashed(memory: Memory, table: int, name: bytes) -> Iterator[int]:
    """Iterate over the indices of the symbols that have the hash of a name."""
    buckets, first, words, shift = struct.unpack("<4I", memory.read(table, 16))
    if not buckets or not words:
        return
    value = gnu_hash(name)
    bloom = read_u64(memory, table + 16 + 8 * (value // 64 % words))
    if not bloom >> value % 64 & bloom >> (value >> shift) % 64 & 1:
        return
    bucket_table = table + 16 + 8 * words
    index = read_u32(memory, bucket_table + 4 * (value % buckets))
    if index < first:
        return
    chain = bucket_table + 4 * buckets
    for i in range(index, index + _MAX_CHAIN):
        entry = read_u32(memory, chain + 4 * (i - first))
        if (entry ^ value) >> 1 == 0:
            yield i
        if entry & 1:
            return


def _read_symbol(memory: Memory, module: Module, at: int, strings: int, name: bytes) -> DynamicSymbol | None:
    offset, info, _, section, value, size = _SYM.unpack(memory.read(at, _SYM.size))
    if section == _SHN_UNDEF or info & 15 == _STT_TLS:
        return None
    if read_cstring(memory, strings + offset, len(name) + 1) != name:
        return None
    return DynamicSymbol(value + load_base(memory, module), size)
