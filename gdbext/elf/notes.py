"""Notes of ELF files and cores (ELF gABI ``Elf64_Nhdr``): a file's build id, and a core's list of mapped files."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from gdbext.elf.headers import PT_NOTE, Read, find_segments, link_address, mapped_file
from gdbext.inferior.protocol import Memory

_NHDR = struct.Struct("<III")
#: The note that lists a core's mapped files (Linux 6.1 include/uapi/linux/elf.h, fs/binfmt_elf.c, fill_files_note).
NT_FILE = 0x46494C45
#: How many bytes of a core's notes are read.
MAX_NOTES = 64 << 20
_NT_GNU_BUILD_ID = 3
#: How many bytes of one segment of notes are read from any other file.
_MAX_FILE_NOTES = 1 << 16


def iter_notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Iterate over a segment of notes: (name, type, description). A truncated note has the bytes that are there."""
    at = 0
    while at + _NHDR.size <= len(data):
        name_size, size, kind = _NHDR.unpack_from(data, at)
        name = at + _NHDR.size
        description = name + (name_size + 3 & ~3)
        yield data[name:name + name_size], kind, data[description:description + size]
        at = description + (size + 3 & ~3)


def find_build_id(read: Read, *, mapped: bool = False) -> str | None:
    """The build id of a file, in hexadecimal; None if it has none, cannot be read, or is not an ELF file.

    The kernel saves the page with the build id in a core, so the id shows whether a file on disk is the one that ran.

    :param mapped: `read` reads the file as it is mapped in memory, with its first page at offset 0.
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
    """The build id of the file whose first page is mapped at an address in the target."""
    return find_build_id(mapped_file(memory, start), mapped=True)


def mapped_files(notes: bytes) -> Iterator[tuple[int, int, int, str]]:
    """The mappings listed by `NT_FILE`: (start, end, offset in the file, path). A damaged list is left out."""
    for _, kind, note in iter_notes(notes):
        if kind != NT_FILE or len(note) < 16:
            continue
        count, page = struct.unpack_from("<QQ", note)
        if count > (len(note) - 16) // 24:
            continue
        names = note[16 + 24 * count:].split(b"\0", count)
        for (start, end, pages), name in zip(struct.iter_unpack("<QQQ", note[16:16 + 24 * count]), names):
            yield start, end, pages * page, os.fsdecode(name)
