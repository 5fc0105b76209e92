"""What the headers of a core file tell that a debugger does not: the address space, permissions, what is missing.

Only headers and notes are read, so that the cost does not grow with the core. C structures: ELF gABI ``Elf64_Ehdr``,
``Elf64_Phdr``, ``Elf64_Nhdr``; the note ``NT_FILE`` (Linux 6.1 fs/binfmt_elf.c, fill_files_note).
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from typing import BinaryIO

from gdbext.record import record
from gdbext.target.address_space import Region
from gdbext.target.notes import iter_notes

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_SHDR_INFO = struct.Struct("<44xI")  # Elf64_Shdr up to sh_info, which counts program headers beyond 65534
_ET_CORE, _PT_LOAD, _PT_NOTE, _PN_XNUM = 4, 1, 4, 0xFFFF
_NT_FILE = 0x46494C45
_PERMISSIONS = ((4, "r"), (2, "w"), (1, "x"))
#: Bounds of what is read: program headers, and bytes of all notes.
_MAX_SEGMENTS, _MAX_NOTES = 1 << 20, 64 << 20


@record
class CoreFile:
    """A core's address space. `size` is the file's, `whole` what it would have to be for all segments to be there."""

    regions: tuple[Region, ...]
    size: int
    whole: int

    @property
    def missing(self) -> int:
        """How many bytes are cut off at the end."""
        return max(self.whole - self.size, 0)


def read_core_file(path: str) -> CoreFile | None:
    """Read the headers of a core; None if it is no regular file, no ELF core for a 64-bit little-endian machine.

    :param path: as the debugger names it; only a regular file is opened for more than a look.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return None
            return _read(file, status.st_size)
    except (OSError, ValueError, struct.error, MemoryError):
        return None


def _read(file: BinaryIO, size: int) -> CoreFile | None:
    ident, kind, _, _, _, headers, sections, _, _, entry, count, section_size, *_ = _EHDR.unpack(file.read(_EHDR.size))
    if ident[:6] != b"\x7fELF\x02\x01" or kind != _ET_CORE or entry != _PHDR.size:
        return None
    if count == _PN_XNUM and sections and section_size >= _SHDR_INFO.size:
        file.seek(sections)
        (count,) = _SHDR_INFO.unpack(file.read(_SHDR_INFO.size))
    file.seek(headers)
    table = file.read(min(count, _MAX_SEGMENTS) * _PHDR.size)
    table = table[:len(table) // _PHDR.size * _PHDR.size]
    whole = headers + min(count, _MAX_SEGMENTS) * _PHDR.size
    loads: list[tuple[int, int, int, int]] = []
    files: list[tuple[int, int, int, str]] = []
    left = _MAX_NOTES
    for kind, flags, offset, start, _, in_file, in_memory, _ in _PHDR.iter_unpack(table):
        whole = max(whole, offset + in_file)
        if kind == _PT_LOAD and start + in_memory <= 1 << 64:
            kept = max(min(in_file, in_memory, size - offset), 0)
            loads.append((start, start + in_memory, flags, start + kept))
        elif kind == _PT_NOTE and left > 0:
            file.seek(offset)
            notes = file.read(min(in_file, left))
            left -= len(notes) + 1  # many empty ones are not free either
            files += _mapped_files(notes)
    return CoreFile(tuple(_regions(loads, files)), size, whole)


def _mapped_files(notes: bytes) -> Iterator[tuple[int, int, int, str]]:
    """(start, end, offset in the file, path) of each mapping that `NT_FILE` lists."""
    for _, kind, note in iter_notes(notes):
        if kind != _NT_FILE or len(note) < 16:
            continue
        count, page = struct.unpack_from("<QQ", note)
        if count > (len(note) - 16) // 24:
            continue
        names = note[16 + 24 * count:].split(b"\0", count)
        for (start, end, pages), name in zip(struct.iter_unpack("<QQQ", note[16:16 + 24 * count]), names):
            yield start, end, pages * page, os.fsdecode(name)


def _regions(loads: list[tuple[int, int, int, int]], files: list[tuple[int, int, int, str]]) -> Iterator[Region]:
    """Segments with the files that are mapped there; a file's mapping is listed too if no segment covers it."""
    by_start = {start: (end, offset, path) for start, end, offset, path in files}
    for start, end, flags, kept in sorted(loads):
        permissions = "".join(letter for bit, letter in _PERMISSIONS if flags & bit)
        _, offset, path = by_start.pop(start, (0, 0, None))
        yield Region(start, end, permissions, path, offset, kept=kept)
    for start, (end, offset, path) in sorted(by_start.items()):
        yield Region(start, end, None, path, offset, kept=start)
