"""Versions of exported symbols, in made-up sections."""

from __future__ import annotations

import random
import struct

from gdbext.elf.headers import FileSection
from gdbext.elf.versions import Versions

STRINGS = b"\0GLIBC_2.2.5\0GLIBC_2.34\0libc.so.6\0"


def definition(number: int, name: bytes, after: int = 28) -> bytes:
    """``Elf64_Verdef`` with one ``Elf64_Verdaux``."""
    return struct.pack("<HHHHIII", 1, 0, number, 1, 0, 20, after) + struct.pack("<II", STRINGS.index(name), 0)


DEFINITIONS = definition(1, b"libc.so.6") + definition(2, b"GLIBC_2.2.5") + definition(3, b"GLIBC_2.34", 0)
NUMBERS = struct.pack("<7H", 0, 1, 2, 3, 0x8002, 0x8001, 9)


def versions(numbers: bytes = NUMBERS, definitions: bytes = DEFINITIONS, link: int = 2) -> Versions:
    data, sections = b"", []
    for name, content in ((".gnu.version", numbers), (".gnu.version_d", definitions), (".dynstr", STRINGS)):
        sections.append(FileSection(name, 1, 2, 0, len(data), len(content), link))
        data += content
    return Versions(lambda offset, size: data[offset:offset + size], sections)


def test_suffix_is_the_version_after_one_or_two_signs() -> None:
    found = versions()
    assert [found.suffix(index) for index in range(8)] == [
        b"", b"", b"@@GLIBC_2.2.5", b"@@GLIBC_2.34", b"@GLIBC_2.2.5", b"", b"", b""]


def test_suffix_without_sections_is_empty() -> None:
    assert Versions(lambda offset, size: b"", []).suffix(2) == b""
    assert versions(link=7).suffix(2) == b""


def test_damaged_definitions_end_the_list() -> None:
    assert versions(definitions=DEFINITIONS[:40]).suffix(3) == b""
    endless = definition(2, b"GLIBC_2.2.5", 0xFFFF) + definition(3, b"GLIBC_2.34", 0xFFFF)
    assert versions(definitions=endless).suffix(2) == b"@@GLIBC_2.2.5"
    chosen = random.Random(1)
    for _ in range(200):
        noise = bytes(chosen.randrange(256) for _ in range(84))
        assert all(isinstance(versions(noise[:14], noise).suffix(index), bytes) for index in range(7))
