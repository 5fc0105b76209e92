"""Headers of ELF files, on disk and in memory: accepted files, refused files, damaged files."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from gdbext.elf.headers import (
    EM_X86_64,
    ET_CORE,
    ET_DYN,
    PF_R,
    PF_X,
    PT_LOAD,
    PT_NOTE,
    Read,
    Segment,
    file_machine,
    file_type,
    find_segments,
    iter_segments,
    link_address,
    mapped_file,
    opened_file,
    read_header,
    read_sections,
)
from gdbext.errors import CorruptStructure
from tests.support.fake_elf import elf_headers
from tests.support.fake_memory import FakeMemory
from tests.support.own_files import small_library

HEADER = 64
SEGMENTS = ((PT_LOAD, PF_R, 0, 0x40_0000, 0x1000), (PT_LOAD, PF_R | PF_X, 0x1000, 0x40_1000, 0x2000),
            (PT_NOTE, PF_R, 0x200, 0x40_0200, 0x24))


def reader(data: bytes) -> Read:
    return lambda offset, size: data[offset:offset + size]


def changed(at: int, form: str, value: int) -> bytes:
    """The headers of a file, with another value of one member."""
    data = bytearray(elf_headers(SEGMENTS))
    struct.pack_into(form, data, at, value)
    return bytes(data)


def test_header_and_program_headers() -> None:
    read = reader(elf_headers(SEGMENTS, ET_CORE))
    header = read_header(read)
    assert (header.kind, header.machine, header.segment_count, header.segments_end) == (
        ET_CORE, EM_X86_64, 3, HEADER + 3 * 56)
    expected = [Segment(kind, flags, offset, address, size, size) for kind, flags, offset, address, size in SEGMENTS]
    assert list(iter_segments(read, header.segments_offset, header.segment_count)) == find_segments(read) == expected
    assert link_address(expected) == 0x40_0000
    assert link_address(expected[1:]) is None


@pytest.mark.parametrize(("data", "why"), [
    (b"", "not an ELF file"), (b"#!/bin/sh\n" + bytes(100), "not an ELF file"),
    (changed(4, "B", 1), "not an ELF file for a 64-bit"), (changed(5, "B", 2), "not an ELF file for a 64-bit"),
    (elf_headers(SEGMENTS)[:63], "header is cut off"), (changed(54, "<H", 32), "table of program headers"),
    (changed(54, "<H", 0), "table of program headers"),
], ids=["empty", "text", "32 bits", "big-endian", "cut off", "small program headers", "program headers without size"])
def test_read_header_when_file_is_not_accepted_raises(data: bytes, why: str) -> None:
    with pytest.raises(CorruptStructure, match=why):
        read_header(reader(data))
    assert find_segments(reader(data)) == []
    with pytest.raises(CorruptStructure, match=why):
        read_sections(reader(data))


def test_program_headers_when_truncated_are_the_complete_ones() -> None:
    data = elf_headers(SEGMENTS)
    assert [len(find_segments(reader(data[:size]))) for size in (64, 119, 120, 176, len(data))] == [0, 0, 1, 2, 3]
    many = elf_headers(SEGMENTS * 50)
    assert [len(find_segments(reader(many[:64 + 56 * count]))) for count in (63, 64, 65, 150)] == [63, 64, 65, 150]


@pytest.mark.parametrize("offset", [1 << 40, 1 << 63, (1 << 64) - 1])
def test_program_headers_when_outside_the_file_are_empty(offset: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(changed(32, "<Q", offset))
    with path.open("rb", buffering=0) as file:
        assert find_segments(opened_file(file)) == []
    assert find_segments(mapped_file(FakeMemory({0x7000: path.read_bytes()}), 0x7000)) == []


def test_number_of_program_headers_is_bounded() -> None:
    asked = []

    def read(offset: int, size: int) -> bytes:
        """An endless file of program headers that claims to have 4 billion of them."""
        asked.append(size)
        data = elf_headers(())
        data = data[:40] + struct.pack("<Q", 64) + data[48:56] + struct.pack("<HHH", 0xFFFF, 64, 1) + data[62:]
        return (data if offset == 0 else b"\xff" * size)[:size]

    header = read_header(read)
    assert header.segment_count == 0xFFFF_FFFF
    assert sum(1 for _ in iter_segments(read, header.segments_offset, header.segment_count)) == 1 << 20
    assert len(find_segments(read)) == 1000
    assert max(asked) < 1 << 16


@pytest.mark.parametrize(("start", "expected"), [
    (elf_headers(()), ET_DYN), (elf_headers((), ET_CORE)[:18], ET_CORE), (elf_headers(())[:17], None), (b"", None),
    (b"\x7fELF\x01\x02\x01" + bytes(9) + b"\0\4", ET_CORE), (b"text" * 10, None),
])
def test_file_type_of_any_machine(start: bytes, expected: int | None) -> None:
    assert file_type(start) == expected


@pytest.mark.parametrize(("start", "expected"), [
    (elf_headers(()), "x86_64"), (elf_headers(())[:18] + b"\xb7\0", "aarch64"), (elf_headers(())[:19], None),
    (b"\x7fELF\x01\x01\x01" + bytes(9) + b"\4\0\3\0", "i386"),
    (b"\x7fELF\x02\x02" + bytes(10) + b"\0\4\0\x16", "s390x"),
    (elf_headers(())[:18] + b"\xff\x7f", "number 32767 of ELF"), (b"text" * 10, None)])
def test_name_of_the_processor_of_an_elf_file(start: bytes, expected: str | None) -> None:
    assert file_machine(start) == expected


def test_file_in_memory_when_pages_are_missing_has_fewer_bytes() -> None:
    memory = FakeMemory({0x7000: elf_headers(SEGMENTS)})
    read = mapped_file(memory, 0x7000)
    assert len(find_segments(read)) == 3
    assert read(4, 2) == b"\2\1"
    assert read(0x10000, 1) == b""
    assert find_segments(mapped_file(memory, 0x7001)) == []


def test_sections_of_a_real_library() -> None:
    sections = {section.name: section for section in read_sections(reader(small_library()))}
    assert {".dynsym", ".dynstr", ".dynamic", ".text", ".shstrtab"} <= set(sections)
    assert (sections[".dynsym"].kind, sections[".text"].flags & 4) == (11, 4)


@pytest.mark.parametrize("seed", range(50))
def test_real_library_when_damaged_raises_only_corrupt_structure(seed: int) -> None:
    chooser = random.Random(seed)
    whole = small_library()
    for _ in range(40):
        data = bytearray(whole[:chooser.choice((len(whole), chooser.randrange(len(whole))))])
        # mostly in the header, the program headers and the table of sections
        for _ in range(chooser.randrange(1, 8)):
            low = chooser.choice((0, 16, 16, 64, max(len(data) - 1000, 0)))
            if low < len(data):
                data[chooser.randrange(low, min(low + 1000, len(data)))] = chooser.choice((0, 1, 0x7F, 0x80, 0xFF))
        read = reader(bytes(data))
        try:
            header = read_header(read)
            assert len(list(iter_segments(read, header.segments_offset, header.segment_count))) <= len(data) // 56
        except CorruptStructure:
            assert find_segments(read) == []
        try:
            assert len(read_sections(read)) <= len(data) // 64
        except CorruptStructure:
            continue
