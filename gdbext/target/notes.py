"""Notes of ELF files and cores (ELF gABI ``Elf64_Nhdr``)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_NHDR = struct.Struct("<III")


def iter_notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """(name, type, description) of each note in a segment of them; of one that is cut off what is there."""
    at = 0
    while at + _NHDR.size <= len(data):
        name_size, size, kind = _NHDR.unpack_from(data, at)
        name = at + _NHDR.size
        description = name + (name_size + 3 & ~3)
        yield data[name:name + name_size], kind, data[description:description + size]
        at = description + (size + 3 & ~3)
