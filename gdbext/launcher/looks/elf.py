"""What the launcher reads of ELF files: the core's notes and memory, and the build ids of files, there and here.

pyelftools reads headers and sections. What it raises for a damaged file is not documented, so all of that means the
file cannot be read. It reads neither build ids, since a core has only the first page of a file, nor a core's notes,
since it gives up on all of them when one is damaged.
"""

from __future__ import annotations

import bisect
import functools
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from gdbext.elf.notes import MAX_NOTES, NT_FILE, iter_notes, mapped_files
from gdbext.inferior.link_map import linked_files
from gdbext.launcher.status import Unreadable
from gdbext.record import record

#: Source: System V ABI, ELF-64 object file format; Linux 6.1 include/uapi/linux/elf.h and auxvec.h.
ET_CORE = 4
_PT_NOTE = 4
_NT_GNU_BUILD_ID, _NT_AUXV = 3, 6
_AT_PHDR, _AT_PHNUM, _AT_EXECFN = 3, 5, 31

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_PAIR = struct.Struct("<QQ")
#: Bounds on what is believed of a file: its program headers, a segment of notes in bytes, a path.
_MAX_HEADERS, _MAX_FILE_NOTES, _MAX_PATH = 1000, 1 << 16, 4096

Read = Callable[[int, int], bytes]


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
        return find_build_id(lambda offset, length: os.pread(file.fileno(), length, offset))


def is_debug_file(path: str | Path) -> bool:
    """Whether a file has only the symbols of another one, whose build id it shares."""
    from elftools.elf.elffile import ELFFile

    try:
        with open(path, "rb") as file:
            return any(section["sh_type"] == "SHT_NOBITS" for section in ELFFile(file).iter_sections()
                       if section.name in (".dynamic", ".text", ".interp"))
    except Exception:
        return False


def find_build_id(read: Read) -> str | None:
    """The build id of an ELF file.

    :param read: gives so many bytes from an offset on, or fewer.
    """
    for kind, _, offset, _, size in program_headers(read):
        if kind != _PT_NOTE:
            continue
        size = min(size, _MAX_FILE_NOTES)
        notes = read(offset, size)
        for name, note, description in iter_notes(notes) if len(notes) == size else ():
            if note == _NT_GNU_BUILD_ID and name == b"GNU\0":
                return description.hex() or None
    return None


def program_headers(read: Read) -> Iterator[tuple[int, int, int, int, int]]:
    """Of each program header of a 64-bit file: type, flags, offset in the file, address, size in the file."""
    header = read(0, _HEADER.size)
    if len(header) < _HEADER.size:
        return
    magic, bits, order, _, _, _, _, table, _, _, _, size, count, *_ = _HEADER.unpack(header)
    if magic != b"\x7fELF" or bits != 2 or order != 1 or size < _PROGRAM_HEADER.size:
        return
    for index in range(min(count, _MAX_HEADERS)):
        data = read(table + index * size, _PROGRAM_HEADER.size)
        if len(data) < _PROGRAM_HEADER.size:
            return
        kind, flags, offset, address, _, length, _, _ = _PROGRAM_HEADER.unpack(data)
        yield kind, flags, offset, address, length


def file_type(header: bytes) -> int | None:
    """The type of an ELF file by its first bytes, None if it is none."""
    if len(header) < 18 or header[:4] != b"\x7fELF":
        return None
    return int(struct.unpack_from("<H" if header[5] == 1 else ">H", header, 16)[0])


class Core:
    """What is read of a core.

    :param file: the core, uncompressed; it must stay open.
    :raises Unreadable: not even its headers can be read.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        try:
            from elftools.elf.elffile import ELFFile
        except ImportError:  # gdbext was not installed, but runs from a checkout
            raise Unreadable("cores need pyelftools, which this Python does not have",
                             "pip install pyelftools") from None

        self._file = file
        self._auxiliary: dict[int, int] = {}
        self._mappings: list[tuple[int, int, int, str]] = []
        #: Whether it has a list of mapped files that cannot be read.
        self.damaged_files = False
        try:
            elf = ELFFile(file)
            segments = [segment.header for segment in elf.iter_segments()]
            self._loads = sorted((header["p_vaddr"], header["p_filesz"], header["p_offset"]) for header in segments
                                 if header["p_type"] == "PT_LOAD")
            self._starts = [start for start, _, _ in self._loads]
            ends = [(header["p_type"], header["p_offset"] + header["p_filesz"]) for header in segments]
            size = os.fstat(file.fileno()).st_size
            if any(kind == "PT_NOTE" and end > size for kind, end in ends):
                raise Unreadable(f"{name} is truncated: {size:,} of {max(end for _, end in ends):,} bytes are there, "
                                 "without the threads' registers",
                                 "was the disk full? `ulimit -c` bounds the size of cores")
            for header in segments:
                if header["p_type"] == "PT_NOTE" and elf.elfclass == 64 and elf.little_endian:
                    self._read_notes(os.pread(file.fileno(), min(header["p_filesz"], MAX_NOTES), header["p_offset"]))
        except Unreadable:
            raise
        except Exception as error:
            raise Unreadable(f"{name}: its headers cannot be read ({type(error).__name__})",
                             "it may be truncated; was the disk full?") from None
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
        return os.pread(self._file.fileno(), length, offset + address - start)

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
            if head == b"\x7fELF" or (not head and (".so" in path or path == self.executable)):
                found[path] = MappedFile(start, path, find_build_id(
                    lambda at, size, start=start: self.read(start + at, size)))  # type: ignore[misc]
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
        for file in linked_files(self.read, self._auxiliary.get(_AT_PHDR, 0), self._auxiliary.get(_AT_PHNUM, 0)):
            path = self.path_at(file.dynamic)
            if file.name and path is not None:
                yield file.name, path
