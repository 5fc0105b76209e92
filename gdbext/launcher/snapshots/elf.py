"""What the launcher knows of a core and its files: mapped files, memory, build ids of files there and here."""

from __future__ import annotations

import bisect
import functools
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from gdbext.elf.headers import (
    MAGIC,
    PT_LOAD,
    PT_NOTE,
    SHT_NOBITS,
    iter_segments,
    opened_file,
    read_header,
    read_sections,
)
from gdbext.elf.link_map import linked_files
from gdbext.elf.notes import MAX_NOTES, NT_FILE, find_build_id, iter_notes, mapped_files
from gdbext.errors import CorruptStructure
from gdbext.launcher.status import Unreadable
from gdbext.record import record

#: Source: Linux 6.1 include/uapi/linux/elf.h and auxvec.h.
_NT_AUXV = 6
_AT_PHDR, _AT_EXECFN = 3, 31

_PAIR = struct.Struct("<QQ")
#: The longest path that is read, in bytes.
_MAX_PATH = 4096


@record
class MappedFile:
    """A file of which a process had mapped the beginning: where, its name, its build id as far as the core has it."""

    start: int
    path: str
    build_id: str | None


def build_id_of(path: str | Path) -> str | None:
    """The build id of a file here, in hexadecimal; None if it is no ELF file, has none or cannot be read."""
    try:
        found = os.stat(path)
        return _build_id_of(str(path), found.st_mtime_ns, found.st_size)
    except (OSError, ValueError):
        return None


@functools.lru_cache(maxsize=100_000)
def _build_id_of(path: str, changed: int, size: int) -> str | None:
    with open(path, "rb", buffering=0) as file:
        return find_build_id(opened_file(file))


def is_debug_file(path: str | Path) -> bool:
    """Whether a file has only the symbols of another one, whose build id it shares."""
    try:
        with open(path, "rb", buffering=0) as file:
            return any(section.kind == SHT_NOBITS for section in read_sections(opened_file(file))
                       if section.name in (".dynamic", ".text", ".interp"))
    except (CorruptStructure, OSError, ValueError):
        return False


class Core:
    """What is read of a core.

    :param file: the core, uncompressed; it must stay open.
    :raises Unreadable: not even its headers can be read.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._auxiliary: dict[int, int] = {}
        self._mappings: list[tuple[int, int, int, str]] = []
        #: Whether it has a list of mapped files that cannot be read.
        self.damaged_files = False
        read = opened_file(file)
        try:
            header = read_header(read)
            segments = list(iter_segments(read, header.segments_offset, header.segment_count))
            if len(segments) < header.segment_count:
                raise CorruptStructure(header.segments_offset, "the program headers are cut off")
        except CorruptStructure as error:
            raise Unreadable(f"{name}: its headers cannot be read: {error}",
                             "it may be truncated (was the disk full?), or of a machine other than x86-64") from None
        size = os.fstat(file.fileno()).st_size
        if any(segment.kind == PT_NOTE and segment.offset + segment.file_size > size for segment in segments):
            whole = max(segment.offset + segment.file_size for segment in segments)
            raise Unreadable(f"{name} is truncated: {size:,} of {whole:,} bytes are there, "
                             "without the threads' registers",
                             "was the disk full? `ulimit -c` bounds the size of cores")
        self._loads = sorted((segment.address, segment.file_size, segment.offset) for segment in segments
                             if segment.kind == PT_LOAD)
        self._starts = [start for start, _, _ in self._loads]
        for segment in segments:
            if segment.kind == PT_NOTE:
                self._read_notes(read(segment.offset, min(segment.file_size, MAX_NOTES)))
        self._mappings.sort()

    def _read_notes(self, notes: bytes) -> None:
        mapped = list(mapped_files(notes))
        self._mappings += mapped
        for name, kind, data in iter_notes(notes):
            self.damaged_files |= kind == NT_FILE and not mapped
            if (name, kind) == (b"CORE\0", _NT_AUXV):
                self._auxiliary.update(_PAIR.iter_unpack(data[:len(data) // 16 * 16]))

    def read(self, address: int, size: int) -> bytes:
        """So many bytes of memory, or as many as the core has."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return b""
        start, kept, offset = self._loads[index]
        length = min(size, start + kept - address)
        if length <= 0:
            return b""
        return opened_file(self._file)(offset + address - start, length)

    def path_at(self, address: int) -> str | None:
        """The file that an address is mapped from."""
        for start, end, _, path in self._mappings:
            if start <= address < end:
                return path
        return None

    @functools.cached_property
    def files(self) -> list[MappedFile]:
        """The executable and the libraries: files mapped from their beginning that are ELF files, or may be."""
        found: dict[str, MappedFile] = {}
        for start, _, offset, path in self._mappings:
            if offset or path in found:
                continue
            head = self.read(start, 4)
            # a core need not have read-only pages (core(5), coredump_filter): then the name must do
            if head == MAGIC or (not head and (".so" in path or path == self.executable)):
                found[path] = MappedFile(start, path, find_build_id(
                    lambda at, size, start=start: self.read(start + at, size), mapped=True))  # type: ignore[misc]
        return list(found.values())

    @functools.cached_property
    def executable(self) -> str | None:
        """The path of the executable, of a script the interpreter's; None if the core does not tell."""
        headers = self._auxiliary.get(_AT_PHDR)
        mapped = self.path_at(headers) if headers is not None else None
        return mapped or self.command

    @functools.cached_property
    def command(self) -> str | None:
        """What was executed, by the name that execve(2) got: of a script the script's, and it may be relative."""
        address = self._auxiliary.get(_AT_EXECFN)
        text = self.read(address, _MAX_PATH) if address is not None else b""
        return text.partition(b"\0")[0].decode("utf-8", "surrogateescape") or None

    def link_names(self) -> Iterator[tuple[str, str]]:
        """Names by which the dynamic linker knows files, and the paths under which they were mapped."""
        for file in linked_files(self.read, self._auxiliary):
            path = self.path_at(file.dynamic)
            if file.name and path is not None:
                yield file.name, path
