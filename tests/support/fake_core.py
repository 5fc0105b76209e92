"""Cores built from bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

ET_EXEC, ET_CORE, PT_LOAD, PT_NOTE, NT_FILE, NT_PRSTATUS, NT_PRPSINFO = 2, 4, 1, 4, 0x46494C45, 1, 3
NT_SIGINFO, NT_AUXV = 0x53494749, 6
R, W, X = 4, 2, 1
EHDR, PHDR, SHDR = 64, 56, 64


def header(count: int, kind: int = ET_CORE, elf_class: int = 2, data: int = 1, headers: int = EHDR, sections: int = 0,
           entry: int = PHDR, section_size: int = 0) -> bytes:
    return b"\x7fELF" + bytes([elf_class, data, 1]) + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", kind, 62, 1, 0, headers, sections, 0, EHDR, entry, count, section_size, 0, 0)


def segment(kind: int, flags: int, offset: int, start: int, in_file: int, in_memory: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, offset, start, 0, in_file, in_memory, 4096)


def note(kind: int, data: bytes, name: bytes = b"CORE\0") -> bytes:
    return struct.pack("<III", len(name), len(data), kind) + name + bytes(-len(name) % 4) + data + bytes(-len(data) % 4)


def mapped(*files: tuple[int, int, int, bytes], page: int = 4096, count: int | None = None) -> bytes:
    """The contents of `NT_FILE`: start, end and offset in pages for each file, then the names."""
    return (struct.pack("<QQ", len(files) if count is None else count, page)
            + b"".join(struct.pack("<QQQ", *each[:3]) for each in files)
            + b"".join(each[3] + b"\0" for each in files))


def core(loads: Sequence[tuple[int, int, int]], notes: bytes = b"", missing: int = 0) -> bytes:
    """A core with segments (flags, start, size), without the last `missing` bytes."""
    offset = EHDR + PHDR * (len(loads) + 1)
    table = segment(PT_NOTE, 0, offset, 0, len(notes), 0)
    offset += len(notes)
    for flags, start, size in loads:
        table += segment(PT_LOAD, flags, offset, start, size, size)
        offset += size
    data = header(len(loads) + 1) + table + notes + bytes(sum(size for _, _, size in loads))
    return data[:len(data) - missing]


def process_information(user: int, group: int) -> bytes:
    """The note of a process's user and group."""
    return note(NT_PRPSINFO, struct.pack("<4BxxxxQII4i16s80s", 0, 0, 0, 0, 0, user, group, 1, 1, 1, 1, b"python", b""))


def state(lwp: int, first: int, size: int = 336) -> bytes:
    """``struct elf_prstatus`` with ascending numbers as registers."""
    registers = struct.pack("<27Q", *range(first, first + 27))
    return (bytes(32) + struct.pack("<i", lwp) + bytes(76) + registers).ljust(size, b"\0")
