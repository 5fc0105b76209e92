from __future__ import annotations

import struct

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.glibc.stdio import FileLock, decode_file_lock, iter_files
from gdbext.inferior.protocol import Module
from gdbext.layout.select import glibc_layouts
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import Builder, FakeMemory

LAYOUTS = glibc_layouts("2.36", "x86_64")
BASE = 0x7F00_0000_0000
LIST = BASE + 0x5000
PTHREAD = 0x7F12_3456_7700
AT = 0x2000
# (FILE *, _IO_lock_t *, descriptor)
FILES = ((0x10000, 0x100E0, 3), (0x20000, 0x20100, 2), (0x30000, 0x30100, -1))


def lock(word: int, depth: int, owner: int) -> FakeMemory:
    return FakeMemory({AT: struct.pack("<iiQ", word, depth, owner)})


@pytest.mark.parametrize(("word", "depth", "owner", "expected"), [
    (2, 1, PTHREAD, PTHREAD), (1, 0, PTHREAD, PTHREAD), (0, 0, 0, None), (2, 0, 0, None), (0, 0, PTHREAD, None),
], ids=["held", "held, depth from 0 on (2.41)", "free", "being taken", "being given back"])
def test_decode_owner(word: int, depth: int, owner: int, expected: int | None) -> None:
    assert decode_file_lock(lock(word, depth, owner), LAYOUTS, AT) == FileLock(AT, word, expected)


def test_decode_when_unreadable_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        decode_file_lock(FakeMemory({AT: bytes(8)}), LAYOUTS, AT)


def files(*chain: int, name: str = "libc.so.6") -> tuple[FakeMemory, list[Module]]:
    """A C library with the files in FILES; `chain` has the head of the list and each file's link."""
    memory, library = fake_elf(BASE, {"_IO_list_all": (LIST - BASE, 8)}, f"/lib/{name}")
    build = Builder(memory, LAYOUTS)
    for file, lock_address, descriptor in FILES:
        build.put("struct _IO_FILE", file, _lock=lock_address, _fileno=descriptor)
    memory.u64(LIST, chain[0])
    for file, following in zip(chain, chain[1:]):
        build.put("struct _IO_FILE", file, _chain=following)
    return memory, [Module("/usr/bin/app", (), True), library]


def walk(memory: FakeMemory, modules: list[Module]) -> list[tuple[int, int, int]]:
    return list(iter_files(memory, LAYOUTS, modules))


ORDER = tuple(file for file, _, _ in FILES)


@pytest.mark.parametrize("name", ["libc.so.6", "libc-2.31.so"])
def test_iter_files_returns_all_files(name: str) -> None:
    assert walk(*files(*ORDER, 0, name=name)) == [*FILES]


def test_iter_files_leaves_out_files_without_a_lock() -> None:
    memory, modules = files(*ORDER, 0)
    Builder(memory, LAYOUTS).put("struct _IO_FILE", ORDER[1], _lock=0)
    assert walk(memory, modules) == [FILES[0], FILES[2]]


def test_iter_files_when_no_file_is_open_is_empty() -> None:
    assert walk(*files(0)) == []


def test_iter_files_when_list_is_cyclic_ends() -> None:
    assert walk(*files(*ORDER, ORDER[1])) == [*FILES]


def test_iter_files_when_list_is_damaged_ends() -> None:
    assert walk(*files(*ORDER[:2], 0xDEAD0000)) == [*FILES[:2]]


def test_iter_files_when_list_is_endless_is_bounded() -> None:
    memory, modules = files(0x1000000)
    size = LAYOUTS["struct _IO_FILE"].size
    piece = bytearray(size * 70000)
    for index in range(70000):
        at = 0x1000000 + size * index
        chain, descriptor, file_lock = (LAYOUTS["struct _IO_FILE"].offset(member)
                                        for member in ("_chain", "_fileno", "_lock"))
        struct.pack_into("<Q", piece, size * index + chain, at + size)
        struct.pack_into("<i", piece, size * index + descriptor, 5)
        struct.pack_into("<Q", piece, size * index + file_lock, 8)
    memory.map(0x1000000, bytes(piece))
    assert len(walk(memory, modules)) == 65536


def test_iter_files_ignores_other_libraries() -> None:
    assert walk(*files(*ORDER, 0, name="libcustom.so.6")) == []
    assert walk(FakeMemory(), []) == []
