"""Notes of ELF files and cores (ELF gABI ``Elf64_Nhdr``), and the list of mapped files among a core's notes."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

_NHDR = struct.Struct("<III")
#: The note of a core that lists mapped files (Linux 6.1 include/uapi/linux/elf.h, fs/binfmt_elf.c, fill_files_note).
NT_FILE = 0x46494C45
#: How many bytes of the notes of a core are read.
MAX_NOTES = 64 << 20


def iter_notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """(name, type, description) of each note in a segment of them; of one that is cut off what is there."""
    at = 0
    while at + _NHDR.size <= len(data):
        name_size, size, kind = _NHDR.unpack_from(data, at)
        name = at + _NHDR.size
        description = name + (name_size + 3 & ~3)
        yield data[name:name + name_size], kind, data[description:description + size]
        at = description + (size + 3 & ~3)


def mapped_files(notes: bytes) -> Iterator[tuple[int, int, int, str]]:
    """(start, end, offset in the file, path) of each mapping that `NT_FILE` lists; a damaged list is left out."""
    for _, kind, note in iter_notes(notes):
        if kind != NT_FILE or len(note) < 16:
            continue
        count, page = struct.unpack_from("<QQ", note)
        if count > (len(note) - 16) // 24:
            continue
        names = note[16 + 24 * count:].split(b"\0", count)
        for (start, end, pages), name in zip(struct.iter_unpack("<QQQ", note[16:16 + 24 * count]), names):
            yield start, end, pages * page, os.fsdecode(name)
