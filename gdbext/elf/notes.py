"""Notes of ELF files and cores (ELF gABI ``Elf64_Nhdr``): the build id of a file, and a core's list of mapped files."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from gdbext.elf.headers import PT_NOTE, Read, find_segments, link_address, mapped_file
from gdbext.inferior.protocol import Memory

_NHDR = struct.Struct("<III")
#: The note of a core that lists mapped files (Linux 6.1 include/uapi/linux/elf.h, fs/binfmt_elf.c, fill_files_note).
NT_FILE = 0x46494C45
#: How many bytes of the notes of a core are read.
MAX_NOTES = 64 << 20
_NT_GNU_BUILD_ID = 3
#: How many bytes of one segment of notes are read of any other file.
_MAX_FILE_NOTES = 1 << 16


def iter_notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """(name, type, description) of each note in a segment of them; of one that is cut off what is there."""
    at = 0
    while at + _NHDR.size <= len(data):
        name_size, size, kind = _NHDR.unpack_from(data, at)
        name = at + _NHDR.size
        description = name + (name_size + 3 & ~3)
        yield data[name:name + name_size], kind, data[description:description + size]
        at = description + (size + 3 & ~3)


def find_build_id(read: Read, *, mapped: bool = False) -> str | None:
    """The build id of a file, in hexadecimal; None if it has none, cannot be read, or is not an ELF file.

    In a core made by the kernel the page that holds it is there, so this tells whether a file on disk is the one
    that the core was made with.

    :param mapped: `read` gives the file as it is mapped in memory, offset 0 being its first page.
    """
    segments = find_segments(read)
    start = link_address(segments) if mapped else 0
    if start is None:
        return None
    for segment in segments:
        if segment.kind != PT_NOTE:
            continue
        size = min(segment.file_size, _MAX_FILE_NOTES)
        notes = read(segment.address - start if mapped else segment.offset, size)
        for name, kind, description in iter_notes(notes) if len(notes) == size else ():
            if kind == _NT_GNU_BUILD_ID and name == b"GNU\0":
                return description.hex() or None
    return None


def build_id_at(memory: Memory, start: int) -> str | None:
    """The build id of the file whose first page is mapped at an address of the target."""
    return find_build_id(mapped_file(memory, start), mapped=True)


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
