from __future__ import annotations

import struct

import pytest

from gdbext.glibc.linker import find_linker_locks
from gdbext.inferior.protocol import Module
from gdbext.layout.select import glibc_layouts
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import FakeMemory

BASE = 0x7F00_0000_0000
GLOBAL = BASE + 0x4000
NAMES = ("_dl_load_lock", "_dl_load_write_lock", "_dl_load_tls_lock")


def mutex(lock: int = 0, owner: int = 0, kind: int = 1, links: int = 0) -> bytes:
    """A ``pthread_mutex_t``, by default recursive."""
    return struct.pack("<iIiIiiQQ", lock, 1 if owner else 0, owner, 1 if owner else 0, kind, 0, links, links)


def linker(size: int, places: dict[int, bytes], name: str = "ld-linux-x86-64.so.2",
           filler: bytes = b"\0") -> tuple[FakeMemory, list[Module]]:
    """A dynamic linker with the given bytes in its `_rtld_global`."""
    memory, module = fake_elf(BASE, {"_rtld_global": (GLOBAL - BASE, size)}, f"/lib64/{name}")
    image = bytearray(filler * (size // len(filler)))
    for at, data in places.items():
        image[at:at + len(data)] = data
    memory.map(GLOBAL, bytes(image))
    return memory, [Module("/usr/bin/app", (), True), module]


def find(memory: FakeMemory, modules: list[Module], version: str = "2.36") -> dict[int, str]:
    return find_linker_locks(memory, glibc_layouts(version, "x86_64"), modules)


@pytest.mark.parametrize(("version", "size", "offsets", "name"), [
    ("2.17", 3960, (2312, 2352), "ld-2.17.so"), ("2.23", 3968, (2312, 2352), "ld-2.23.so"),
    ("2.31", 4000, (2312, 2352), "ld-2.31.so"), ("2.36", 4336, (2568, 2608, 2648), "ld-linux-x86-64.so.2"),
    ("2.41", 2888, (2568, 2608, 2648), "ld-linux-x86-64.so.2"),
    ("2.43", 2120, (1800, 1840, 1880), "ld-linux-x86-64.so.2"),
])
def test_find_at_the_offsets_of_live_processes(version: str, size: int, offsets: tuple[int, ...], name: str) -> None:
    memory, modules = linker(size, {offsets[0]: mutex(2, 4711) + mutex() * (len(offsets) - 1)}, name)
    assert find(memory, modules, version) == {GLOBAL + at: lock for at, lock in zip(offsets, NAMES)}


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("start", [1000, 2000])
@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\x01\0\0\0\0\0\0\0", b"\x40\x12\0\0\x55\x55\0\0"])
def test_find_when_size_differs_searches_the_structure(count: int, start: int, filler: bytes) -> None:
    memory, modules = linker(4400, {start: mutex(1, 4711) + mutex() * (count - 1)}, filler=filler)
    assert find(memory, modules) == {GLOBAL + start + 40 * i: NAMES[i] for i in range(count)}


def test_find_when_table_does_not_fit_searches_the_structure() -> None:
    memory, modules = linker(4336, {2576: mutex() * 3})
    assert find(memory, modules) == {GLOBAL + 2576 + 40 * i: NAMES[i] for i in range(3)}


@pytest.mark.parametrize("data", [
    mutex(), mutex(kind=0) * 3, mutex(7) * 2, mutex(owner=-5) * 2, mutex(links=BASE) * 2,
    mutex() + bytes(8) + mutex(), b"",
], ids=["only one", "not recursive", "lock word", "negative owner", "on a list", "apart", "none"])
def test_find_when_bytes_are_not_locks_is_empty(data: bytes) -> None:
    assert find(*linker(4400, {1000: data})) == {}


def test_find_at_the_end_of_the_structure() -> None:
    memory, modules = linker(1080, {1000: mutex() * 2})
    assert list(find(memory, modules).values()) == [*NAMES[:2]]


def test_find_without_a_dynamic_linker_is_empty() -> None:
    memory, modules = linker(4336, {2568: mutex() * 3}, name="libc.so.6")
    assert find(memory, modules) == {}
    assert find(FakeMemory(), []) == {}


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_find_when_size_is_impossible_is_empty(size: int) -> None:
    memory, module = fake_elf(BASE, {"_rtld_global": (GLOBAL - BASE, size)}, "/lib64/ld-linux-x86-64.so.2")
    memory.map(GLOBAL, mutex() * 3)
    assert find(memory, [module]) == {}


def test_find_when_unreadable_is_empty() -> None:
    memory, module = fake_elf(BASE, {"_rtld_global": (GLOBAL - BASE, 4336)}, "/lib64/ld-linux-x86-64.so.2")
    assert find(memory, [module]) == {}
