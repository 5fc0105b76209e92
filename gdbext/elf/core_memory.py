"""The memory that a core contains, and the files that the process had mapped."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator

from gdbext.elf.headers import MAGIC, PT_LOAD, PT_NOTE, Read, iter_entries, iter_segments, read_header
from gdbext.elf.link_map import TAG_AND_VALUE, linked_files
from gdbext.elf.notes import MAX_NOTES, NT_FILE, find_build_id, iter_notes, mapped_files
from gdbext.errors import CorruptStructure
from gdbext.record import record

#: Source: Linux 6.1 include/uapi/linux/elf.h and auxvec.h.
_NT_AUXV = 6
_AT_PHDR, _AT_EXECFN = 3, 31
#: The longest path that is read, in bytes.
_MAX_PATH = 4096


@record
class MappedFile:
    """A file whose first page a process had mapped: the address, the path, and the build id if the core has it."""

    start: int
    path: str
    build_id: str | None


class CoreMemory:
    """The memory of a process in its core. `damaged_files`: the list of mapped files cannot be read.

    `notes_end` and `end` are the file offsets after the notes and after the last segment.

    :param read: reads the uncompressed core.
    :raises CorruptStructure: its headers cannot be read.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        #: The auxiliary vector: tag -> value.
        self.auxiliary: dict[int, int] = {}
        self._mappings: list[tuple[int, int, int, str]] = []
        self.damaged_files = False
        header = read_header(read)
        segments = list(iter_segments(read, header.segments_offset, header.segment_count))
        if len(segments) < header.segment_count:
            raise CorruptStructure(header.segments_offset, "the program headers are cut off")
        self.end = max((segment.offset + segment.file_size for segment in segments), default=0)
        self.notes_end = max((segment.offset + segment.file_size for segment in segments if segment.kind == PT_NOTE),
                             default=0)
        self._loads = sorted((segment.address, segment.file_size, segment.offset) for segment in segments
                             if segment.kind == PT_LOAD)
        self._starts = [start for start, _, _ in self._loads]
        for segment in segments:
            if segment.kind == PT_NOTE:
                self._add_notes(read(segment.offset, min(segment.file_size, MAX_NOTES)))
        self._mappings.sort()

    def _add_notes(self, notes: bytes) -> None:
        mapped = list(mapped_files(notes))
        self._mappings += mapped
        for name, kind, data in iter_notes(notes):
            self.damaged_files |= kind == NT_FILE and not mapped
            if (name, kind) == (b"CORE\0", _NT_AUXV):
                self.auxiliary.update(iter_entries(TAG_AND_VALUE, data))

    def read(self, address: int, size: int) -> bytes:
        """Read so many bytes of memory, or as many as the core has."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return b""
        start, kept, offset = self._loads[index]
        length = min(size, start + kept - address)
        return self._read(offset + address - start, length) if length > 0 else b""

    def path_at(self, address: int) -> str | None:
        """The file that is mapped at an address."""
        return next((path for start, end, _, path in self._mappings if start <= address < end), None)

    @functools.cached_property
    def files(self) -> list[MappedFile]:
        """The executable and the libraries: mapped files that are ELF files by their first page, or by name."""
        found: dict[str, MappedFile] = {}
        for start, _, offset, path in self._mappings:
            if offset or path in found:
                continue
            head = self.read(start, 4)
            # a core may lack read-only pages (core(5), coredump_filter)
            if head == MAGIC or (not head and (".so" in path or path == self.executable)):
                found[path] = MappedFile(start, path, find_build_id(
                    lambda at, size, start=start: self.read(start + at, size), mapped=True))  # type: ignore[misc]
        return list(found.values())

    @functools.cached_property
    def executable(self) -> str | None:
        """The path of the executable, for a script its interpreter; None if the core does not contain it."""
        headers = self.auxiliary.get(_AT_PHDR)
        mapped = self.path_at(headers) if headers is not None else None
        return mapped or self.command

    @functools.cached_property
    def command(self) -> str | None:
        """The path that execve(2) got: for a script the script, and maybe relative."""
        address = self.auxiliary.get(_AT_EXECFN)
        text = self.read(address, _MAX_PATH) if address is not None else b""
        return text.partition(b"\0")[0].decode("utf-8", "surrogateescape") or None

    def link_names(self, read: Read | None = None) -> Iterator[tuple[str, str]]:
        """The dynamic linker's names of files, each with the path under which the file was mapped.

        :param read: reads memory by address; by default only that in the core.
        """
        for file in linked_files(read or self.read, self.auxiliary):
            path = self.path_at(file.dynamic)
            if file.name and path is not None:
                yield file.name, path
