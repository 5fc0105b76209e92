"""The only reader of ELF headers, program headers and section headers.

The file may be on disk, in a core, or mapped into the target's memory: a `Read` function is enough. Files for machines
that are not 64-bit and little-endian are refused. Nothing in a file is trusted: every count is bounded, and a truncated
table has the entries that are complete.

C structures: ELF gABI ``Elf64_Ehdr``, ``Elf64_Phdr``, ``Elf64_Shdr``.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from gdbext.errors import CorruptStructure, GdbextError
from gdbext.inferior.cache import PAGE
from gdbext.inferior.protocol import Memory
from gdbext.record import record

#: Reads up to `size` bytes at an offset: (offset, size). Its exceptions are passed on.
Read = Callable[[int, int], bytes]

MAGIC = b"\x7fELF"
ET_EXEC, ET_DYN, ET_CORE = 2, 3, 4
EM_X86_64, EM_AARCH64 = 62, 183
#: The names of processors, as in `Target.architecture`. Source: Linux 6.1 include/uapi/linux/elf-em.h.
_MACHINES = {3: "i386", 8: "mips", 21: "ppc64", 22: "s390x", 40: "arm", EM_X86_64: "x86_64", EM_AARCH64: "aarch64",
             243: "riscv", 258: "loongarch"}
PT_LOAD, PT_NOTE, PT_GNU_EH_FRAME = 1, 4, 0x6474E550
PF_X, PF_W, PF_R = 1, 2, 4
SHT_SYMTAB, SHT_NOBITS, SHT_DYNSYM = 2, 8, 11
SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_COMPRESSED = 2, 4, 0x400, 0x800
_64_BIT_LITTLE_ENDIAN = MAGIC + b"\2\1"
_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_SHDR = struct.Struct("<IIQQQQIIQQ")
#: With this many program headers or more, the number is in the first section header (sh_info).
_PN_XNUM, _SH_INFO = 0xFFFF, 7
#: Bounds: program headers of a core, and of any other file; sections, and the text of their names in bytes.
_MAX_SEGMENTS, MAX_FILE_SEGMENTS, _MAX_SECTIONS, _MAX_SECTION_NAMES = 1 << 20, 1000, 1 << 16, 1 << 22
#: How many program headers one read fetches: only the beginning of their table may be readable.
_AT_A_TIME = 64


@record
class Header:
    """The header of a file: its type (``ET_CORE`` ...), its machine, and the places of its tables."""

    kind: int
    machine: int
    segments_offset: int
    segment_count: int
    sections_offset: int
    section_size: int
    section_count: int
    names_index: int

    @property
    def segments_end(self) -> int:
        """The file offset of the end of the program headers."""
        return self.segments_offset + min(self.segment_count, _MAX_SEGMENTS) * _PHDR.size


@record
class Segment:
    """A program header: `address` is the link-time address, `size` the size in memory, in bytes."""

    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    size: int


@record
class FileSection:
    """A section header: `address` is the link-time address, `offset` the offset in the file."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


def file_type(start: bytes) -> int | None:
    """The type of an ELF file for any machine, by its first 18 bytes; None if it is not an ELF file."""
    return _half(start, 16)


def file_machine(start: bytes) -> str | None:
    """The name of the processor of an ELF file, by its first 20 bytes; None if it is not an ELF file."""
    machine = _half(start, 18)
    return None if machine is None else machine_name(machine)


def machine_name(machine: int) -> str:
    """The name of a processor, by its number in ELF headers."""
    return _MACHINES.get(machine, f"number {machine} of ELF")


def _half(start: bytes, at: int) -> int | None:
    """A half word of an ELF header in the file's byte order."""
    if len(start) < at + 2 or not start.startswith(MAGIC):
        return None
    return int.from_bytes(start[at:at + 2], "little" if start[5] == 1 else "big")


def opened_file(file: IO[bytes]) -> Read:
    """Make a `Read` of an open file. It returns no bytes where reading fails, as at an impossible offset."""
    def read(offset: int, size: int) -> bytes:
        try:
            return os.pread(file.fileno(), size, offset)
        except (OSError, OverflowError, MemoryError):
            return b""

    return read


def mapped_file(memory: Memory, start: int) -> Read:
    """Make a `Read` of a file in the target's memory. It returns no bytes where memory is unreadable.

    :param start: the address of the file's first page.
    """
    def read(offset: int, size: int) -> bytes:
        try:
            return memory.read(start + offset, size)
        except GdbextError:
            return b""

    return read


def read_header(read: Read) -> Header:
    """Read the ELF header.

    :raises CorruptStructure: the file is not an ELF file for a 64-bit little-endian machine.
    """
    data = read(0, _EHDR.size)
    if not data.startswith(_64_BIT_LITTLE_ENDIAN):
        raise CorruptStructure(0, "not an ELF file for a 64-bit little-endian machine")
    if len(data) < _EHDR.size:
        raise CorruptStructure(0, "the ELF header is cut off")
    (_, kind, machine, _, _, segments, sections, _, _, entry, count, section_size, section_count,
     names) = _EHDR.unpack(data)
    if entry != _PHDR.size and (entry or count):
        raise CorruptStructure(54, "an unusual table of program headers")
    if count == _PN_XNUM and sections and section_size == _SHDR.size:
        first = read(sections, _SHDR.size)
        if len(first) < _SHDR.size:
            raise CorruptStructure(sections, "the number of program headers is cut off")
        count = _SHDR.unpack(first)[_SH_INFO]
    return Header(kind, machine, segments, count, sections, section_size, section_count, names)


def iter_entries(form: struct.Struct, table: bytes) -> Iterator[tuple[Any, ...]]:
    """Iterate over the complete entries of a table."""
    return form.iter_unpack(table[:len(table) // form.size * form.size])


def iter_segments(read: Read, start: int, count: int) -> Iterator[Segment]:
    """Iterate over a table of program headers, up to the first that cannot be read."""
    end = start + min(count, _MAX_SEGMENTS) * _PHDR.size
    for at in range(start, end, _AT_A_TIME * _PHDR.size):
        wanted = min(_AT_A_TIME * _PHDR.size, end - at)
        table = read(at, wanted)
        for kind, flags, offset, address, _, in_file, size, _ in iter_entries(_PHDR, table):
            yield Segment(kind, flags, offset, address, in_file, size)
        if len(table) < wanted:
            return


def find_segments(read: Read) -> Sequence[Segment]:
    """The program headers of an executable or library; empty if `read_header` does not accept it."""
    try:
        header = read_header(read)
    except CorruptStructure:
        return []
    return list(iter_segments(read, header.segments_offset, min(header.segment_count, MAX_FILE_SEGMENTS)))


def link_address(segments: Sequence[Segment]) -> int | None:
    """The link-time address of a file's first page; None if no segment loads it."""
    return next((segment.address & ~(PAGE - 1) for segment in segments
                 if segment.kind == PT_LOAD and segment.offset == 0), None)


def read_sections(read: Read) -> Sequence[FileSection]:
    """Read the section headers of a file.

    :raises CorruptStructure: `read_header` does not accept the file, or a section header cannot be read.
    """
    header = read_header(read)
    count, offset = header.section_count, header.sections_offset
    if header.section_size != _SHDR.size or not 0 < count < _MAX_SECTIONS:
        # no sections, or so many that their number is stored elsewhere
        raise CorruptStructure(58, "an unusual table of sections")
    table = read(offset, _SHDR.size * count)
    if len(table) < _SHDR.size * count or header.names_index >= count:
        raise CorruptStructure(offset, "the table of sections is cut off")
    headers = list(_SHDR.iter_unpack(table))
    _, _, _, _, names_at, names_size, *_ = headers[header.names_index]
    names = read(names_at, min(names_size, _MAX_SECTION_NAMES))
    sections = []
    for name_at, kind, flags, address, at, length, link, *_ in headers:
        end = names.find(b"\0", name_at)
        name = names[name_at:end if end >= 0 else None].decode("utf-8", "backslashreplace")
        sections.append(FileSection(name, kind, flags, address, at, length if kind != 0 else 0, link))
    return sections


def open_regular(path: str) -> Read:
    """Open a regular file for reading parts of it.

    :raises OSError: it cannot be opened, or is not a regular file.
    :raises ValueError: the path has a null character.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a device may have an effect
        raise OSError("not a regular file")
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    file = os.fdopen(handle, "rb", buffering=0)  # closed with the last reference to it
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise OSError("not a regular file")
    return opened_file(file)
