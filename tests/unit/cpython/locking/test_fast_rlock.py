from __future__ import annotations

import struct

import pytest

from gdbext.cpython.locking.fast_rlock import FastRLock, is_fast_rlock, read_fast_rlock
from gdbext.cpython.locking.locks import LockReader, PyLock
from gdbext.cpython.objects import Objects
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import VERSIONS, FakePython

AT, LOCK, OWNER = 0x7F00_0000_1000, 0x5600_0000_2000, 0x7F00_1234_5700


def members(lock: int = LOCK, owner: int = OWNER, count: int = 2, pending: int = 1, is_locked: int = 1) -> bytes:
    return struct.pack("<QQIIIxxxx", lock, owner, count, pending, is_locked)


def test_held_lock_has_an_owner() -> None:
    assert read_fast_rlock(FakeMemory({AT: members()}), AT, 32) == FastRLock(LOCK, OWNER, 2)


@pytest.mark.parametrize("wrong", [
    {"lock": 0}, {"lock": LOCK + 1}, {"is_locked": 2}, {"count": 1 << 30}, {"pending": 1 << 30}, {"owner": 0}])
def test_implausible_members_are_no_lock(wrong: dict[str, int]) -> None:
    assert read_fast_rlock(FakeMemory({AT: members(**wrong)}), AT, 32) is None


def test_object_that_is_too_small_is_no_lock() -> None:
    assert read_fast_rlock(FakeMemory({AT: members()}), AT, 24) is None


def test_names_of_types() -> None:
    assert is_fast_rlock("h5py._objects.FastRLock")
    assert not is_fast_rlock("FastRLock")  # a class written in Python
    assert not is_fast_rlock("my.NotAFastRLock")


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("version", VERSIONS)
def test_lock_object_is_held_while_its_count_is_not_zero(version: str, count: int) -> None:
    python = FakePython(FakeMemory(), version)
    at = python.fast_rlock(OWNER if count else None)
    word = python.fast_rlock_word(at)
    lock = LockReader(python.memory, python.layouts, Objects(python.memory, python.layouts)).decode(at)
    state = "locked" if count else "free"
    assert lock == PyLock("py-fast-rlock", at, "lupa.lua54.FastRLock", state, (word,), count > 0,
                          OWNER if count else None)
