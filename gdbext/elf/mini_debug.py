"""The compressed symbol table in an executable that has no other (``.gnu_debugdata``), as of Fedora and RHEL.

The section is an ELF file that was compressed with xz. It has the symbols of functions that are not exported.
Source: GDB manual, "MiniDebugInfo".
"""

from __future__ import annotations

import lzma

from gdbext.elf.headers import Read
from gdbext.elf.symtab import SymbolFile
from gdbext.errors import CorruptStructure

_SECTION = ".gnu_debugdata"
#: Bounds in bytes: the section, what is in it, and the memory for decompressing it.
_MAX_COMPRESSED, _MAX_SIZE, _MAX_MEMORY = 1 << 24, 1 << 26, 1 << 27


def mini_debug_file(file: SymbolFile) -> SymbolFile | None:
    """The file that is compressed inside another one; None without.

    :raises CorruptStructure: it cannot be decompressed, is larger than any real one, or is not an ELF file.
    """
    section = file.section(_SECTION)
    if section is None:
        return None
    if section.size > _MAX_COMPRESSED:
        raise CorruptStructure(section.offset, f"{_SECTION} is too large")
    try:
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_MEMORY)
        data = stream.decompress(file.read(section.offset, section.size), _MAX_SIZE)
    except (lzma.LZMAError, EOFError, MemoryError) as error:
        raise CorruptStructure(section.offset, f"{_SECTION} cannot be decompressed: {error}") from None
    if not stream.eof:
        raise CorruptStructure(section.offset, f"{_SECTION} ends early, or is too large")
    return SymbolFile(_read_bytes(data))


def _read_bytes(data: bytes) -> Read:
    return lambda offset, size: data[offset:offset + size] if offset >= 0 else b""
