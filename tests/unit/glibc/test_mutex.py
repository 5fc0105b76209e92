from __future__ import annotations

import struct

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.glibc.mutex import MutexState, decode_mutex
from gdbext.layout.select import glibc_layouts
from tests.support.fake_memory import FakeMemory

TID = 4711
AT = 0x1000
VERSIONS = ("2.31", "2.36", "2.41", "2.43")


def mutex(lock: int, count: int = 0, owner: int = 0, users: int = 0, kind: int = 0) -> bytes:
    """The bytes of a ``pthread_mutex_t`` of x86-64."""
    return struct.pack("<5I20x", lock, count, owner & 0xFFFFFFFF, users, kind)


def decode(data: bytes, address: int = AT, version: str = "2.36") -> MutexState:
    return decode_mutex(FakeMemory({address: data}), glibc_layouts(version, "x86_64"), address)


@pytest.mark.parametrize("version", VERSIONS)
def test_held_with_waiters(version: str) -> None:
    state = decode(mutex(2, 0, TID, 1), version=version)
    assert state == MutexState(AT, True, TID, "normal", 0, 1, False, True)


def test_static_initialiser_is_free() -> None:
    assert decode(bytes(40)) == MutexState(AT, False, None, "normal", 0, 0, False, True)


@pytest.mark.parametrize(("kind", "text"), [
    (0x200, "normal"), (0x000, "normal"), (1, "recursive"), (2, "error-checking"), (3, "adaptive"),
    (0x80, "normal, process-shared"), (0x40, "normal, priority-protected"),
    (0x20, "normal, priority-inheriting"), (0x90, "normal, robust"), (0x91, "recursive, robust"),
    (0xB0, "normal, robust, priority-inheriting"), (0x101, "recursive"),
])
def test_kinds(kind: int, text: str) -> None:
    state = decode(mutex(0, kind=kind))
    assert state.kind == text
    assert state.plausible


def test_recursion_depth() -> None:
    state = decode(mutex(2, 3, TID, 1, 1))
    assert (state.recursion, state.owner, state.plausible) == (3, TID, True)


def test_only_a_recursive_mutex_counts() -> None:
    assert not decode(mutex(2, 3, TID, 1, 0)).plausible


@pytest.mark.parametrize("kind", [0x90, 0x20, 0xB0])
def test_kernel_checked_word_names_the_owner(kind: int) -> None:
    # the __owner member is stale here on purpose: the word counts
    state = decode(mutex(0x80000000 | TID, 0, 99, 1, kind))
    assert (state.locked, state.owner, state.owner_died, state.plausible) == (True, TID, False, True)


def test_robust_mutex_whose_owner_died() -> None:
    state = decode(mutex(0xC0000000 | TID, 0, TID, 1, 0x90))
    assert state.owner_died


@pytest.mark.parametrize("special", [0x7FFFFFFF, 0x7FFFFFFE])
def test_unusable_robust_mutex_has_no_owner(special: int) -> None:
    state = decode(mutex(0, 0, special, 0, 0x90))
    assert (state.locked, state.owner, state.plausible) == (False, None, True)


def test_priority_protected_word_carries_the_ceiling() -> None:
    state = decode(mutex(0x80002, 0, TID, 1, 0x40))
    assert (state.locked, state.owner, state.plausible) == (True, TID, True)
    assert not decode(mutex(0x80000, 0, 0, 0, 0x40)).locked


def test_waiters_of_a_condition_variable_are_users_too() -> None:
    state = decode(mutex(0, 0, 0, 3))
    assert (state.locked, state.users, state.plausible) == (False, 3, True)


def test_moment_before_the_owner_is_noted() -> None:
    state = decode(mutex(1, 0, 0, 0))
    assert (state.locked, state.owner, state.plausible) == (True, None, True)


@pytest.mark.parametrize("data", [
    mutex(7, 0, TID, 1), mutex(2, 0, -TID, 1), mutex(2, 0, TID, 1 << 23), mutex(2, 0, TID, 1, 0x404),
    mutex(0, 0, TID, 0), mutex(2, 0, TID, 0), mutex(2, 0, TID, 1, 0x80000000),
], ids=["word", "owner", "users", "kind", "free but owned", "owner but no user", "negative kind"])
def test_other_bytes_are_no_mutex(data: bytes) -> None:
    assert not decode(data).plausible


def test_unaligned_is_no_mutex() -> None:
    assert not decode(mutex(2, 0, TID, 1), AT + 2).plausible


def test_torn_at_the_end_of_memory() -> None:
    with pytest.raises(MemoryUnreadable):
        decode(mutex(2, 0, TID, 1)[:16])
