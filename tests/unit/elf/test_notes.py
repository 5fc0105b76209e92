"""Notes and build ids of files on disk and in memory."""

from __future__ import annotations

import random
import struct

import pytest

from gdbext.elf.headers import PF_R, PT_LOAD, PT_NOTE, Read
from gdbext.elf.notes import NT_FILE, build_id_at, find_build_id, iter_notes, mapped_files
from tests.support.fake_elf import build_id_note, elf_headers
from tests.support.fake_memory import FakeMemory
from tests.support.own_files import small_library

BASE, LINKED, MOVED = 0x7F00_0000_0000, 0x40_0000, 0x5000
BUILD_ID = bytes(range(20))


def reader(data: bytes) -> Read:
    return lambda offset, size: data[offset:offset + size]


def program(notes: bytes, *, size: int | None = None, moved: int = 0) -> bytes:
    """A file with notes at offset 0x200; in memory they are `moved` bytes further, as in a file changed by patchelf."""
    headers = elf_headers([(PT_NOTE, PF_R, 0x200, LINKED + 0x200 + moved, len(notes) if size is None else size),
                           (PT_LOAD, PF_R, 0, LINKED, 0x1000)])
    return headers.ljust(0x200, b"\0") + notes


def test_build_id_of_a_file() -> None:
    other = struct.pack("<III", 4, 4, 5) + b"GNU\0" + bytes(4) + struct.pack("<III", 4, 4, 3) + b"Go\0\0" + bytes(4)
    assert find_build_id(reader(program(build_id_note(BUILD_ID)))) == BUILD_ID.hex()
    assert find_build_id(reader(program(other + build_id_note(BUILD_ID)))) == BUILD_ID.hex()
    assert find_build_id(reader(program(other))) is None
    assert find_build_id(reader(program(b""))) is None
    assert find_build_id(reader(b"text")) is None


@pytest.mark.parametrize("moved", [0, MOVED])
def test_build_id_of_a_file_in_memory(moved: int) -> None:
    notes = build_id_note(BUILD_ID)
    data = program(notes, moved=moved)
    memory = FakeMemory({BASE: data[:0x200], BASE + 0x200 + moved: notes})
    assert build_id_at(memory, BASE) == BUILD_ID.hex()
    assert build_id_at(memory, BASE + 8) is None
    assert build_id_at(memory, 0) is None


def test_build_id_when_first_page_is_not_loaded_is_none_in_memory() -> None:
    """Without the first page the address of the notes is unknown."""
    data = elf_headers([(PT_NOTE, PF_R, 0x200, 0x200, 36)]).ljust(0x200, b"\0") + build_id_note(BUILD_ID)
    assert find_build_id(reader(data)) == BUILD_ID.hex()
    assert find_build_id(reader(data), mapped=True) is None


@pytest.mark.parametrize("cut", [1, 19, 20, 35])
def test_build_id_when_truncated_is_none(cut: int) -> None:
    """A part of a build id would be wrong."""
    data = program(build_id_note(BUILD_ID))[:-cut]
    assert find_build_id(reader(data)) is None
    assert build_id_at(FakeMemory({BASE: data}), BASE) is None


def test_notes_with_impossible_size_are_not_read() -> None:
    asked = []

    def read(offset: int, size: int) -> bytes:
        asked.append(size)
        return program(build_id_note(BUILD_ID), size=(1 << 64) - 1)[offset:offset + size]

    assert find_build_id(read) is None
    assert max(asked) <= 1 << 16


def test_iter_notes_when_truncated_returns_the_remaining_bytes() -> None:
    notes = struct.pack("<III", 5, 3, 7) + b"CORE\0\0\0\0" + b"abc\0" + build_id_note(BUILD_ID)
    assert list(iter_notes(notes)) == [(b"CORE\0", 7, b"abc"), (b"GNU\0", 3, BUILD_ID)]
    assert list(iter_notes(notes[:-4])) == [(b"CORE\0", 7, b"abc"), (b"GNU\0", 3, BUILD_ID[:-4])]
    assert list(iter_notes(notes[:11])) == []


def test_mapped_files() -> None:
    listed = struct.pack("<5Q", 1, 4096, 0x1000, 0x3000, 2) + b"/lib/\xff.so\0"
    note = struct.pack("<III", 5, len(listed), NT_FILE) + b"CORE\0\0\0\0" + listed
    assert list(mapped_files(note)) == [(0x1000, 0x3000, 0x2000, "/lib/\udcff.so")]


@pytest.mark.parametrize("mapped", [False, True])
def test_build_id_of_a_real_library_when_damaged_raises_nothing(mapped: bool) -> None:
    chooser = random.Random(11)
    whole = small_library()[:0x1000]
    for _ in range(3000):
        data = bytearray(whole[:chooser.choice((len(whole), chooser.randrange(len(whole))))])
        for _ in range(min(chooser.randrange(1, 8), len(data))):
            data[chooser.randrange(min(len(data), 0x400))] = chooser.choice((0, 1, 0x7F, 0x80, 0xFF))
        if mapped:
            build_id_at(FakeMemory({BASE: bytes(data)}), BASE)
        else:
            find_build_id(reader(bytes(data)))
