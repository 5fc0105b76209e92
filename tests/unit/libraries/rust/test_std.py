from __future__ import annotations

import struct

import pytest

from gdbext.inferior.protocol import Section
from gdbext.libraries.rust import std as rust_std
from gdbext.libraries.rust.std import RwLockState
from tests.support.fake_memory import FakeMemory

LOCK = 0x5555_0000_1000
WRITTEN, READERS, WRITERS = (1 << 30) - 1, 1 << 30, 1 << 31


@pytest.mark.parametrize(("word", "locked"), [(0, False), (1, True), (2, True), (3, None), (1 << 31, None)])
def test_mutex(word: int, locked: bool | None) -> None:
    assert rust_std.is_locked_mutex(FakeMemory({LOCK: struct.pack("<I", word)}), LOCK) is locked


@pytest.mark.parametrize(("word", "expected", "state"), [
    (WRITTEN | READERS, WRITTEN | READERS, ("write-locked", 0)),
    (WRITTEN | READERS | WRITERS, WRITTEN | READERS, ("write-locked", 0)),
    (3 | READERS | WRITERS, 3 | READERS | WRITERS, ("read-locked", 3)),
    (READERS, WRITTEN | READERS, ("free", 0)),
    (1 << 24, WRITTEN | READERS, None),
    (WRITTEN, WRITTEN, None),
    (READERS, READERS, None),
    (READERS | 1 << 24, READERS | 1 << 24, None),
    (5, 5, None),
])
def test_rwlock_of_a_reader(word: int, expected: int, state: tuple[str, int] | None) -> None:
    found = rust_std.rwlock_of_reader(FakeMemory({LOCK: struct.pack("<II", word, 7)}), LOCK, expected)
    assert found == (RwLockState(LOCK, *state) if state is not None else None)


@pytest.mark.parametrize(("word", "state"), [
    (WRITTEN | WRITERS, ("write-locked", 0)),
    (2 | WRITERS, ("read-locked", 2)),
    (WRITERS, ("free", 0)),
    (WRITTEN, None),
    (WRITERS | 0x3FF0_0000, None),  # half of a floating-point number
])
def test_rwlock_of_a_writer(word: int, state: tuple[str, int] | None) -> None:
    found = rust_std.rwlock_of_writer(FakeMemory({LOCK: struct.pack("<II", word, 7)}), LOCK + 4)
    assert found == (RwLockState(LOCK, *state) if state is not None else None)


@pytest.mark.parametrize("at", [0, (1 << 20) - 5, (1 << 20) + 7])
def test_library_is_found_in_the_constants(at: int) -> None:
    memory = FakeMemory({LOCK: bytes(2 << 20)})
    constants = Section(".rodata", LOCK, LOCK + (2 << 20))
    assert not rust_std.has_library(memory, constants)
    memory.write(LOCK + at, b"/rustc/5980/library/std/src/sync/once.rs")
    assert rust_std.has_library(memory, constants)


def test_library_in_unreadable_constants() -> None:
    assert not rust_std.has_library(FakeMemory(), Section(".rodata", LOCK, LOCK + 64))
