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
def test_decode_when_held(version: str) -> None:
    state = decode(mutex(2, 0, TID, 1), version=version)
    assert state == MutexState(AT, True, TID, "normal", 0, 1, False, True)


def test_decode_of_static_initialiser_is_free() -> None:
    assert decode(bytes(40)) == MutexState(AT, False, None, "normal", 0, 0, False, True)


@pytest.mark.parametrize(("kind", "text"), [
    (0x200, "normal"), (0x000, "normal"), (1, "recursive"), (2, "error-checking"), (3, "adaptive"),
    (0x80, "normal, process-shared"), (0x40, "normal, priority-protected"),
    (0x20, "normal, priority-inheriting"), (0x90, "normal, robust"), (0x91, "recursive, robust"),
    (0xB0, "normal, robust, priority-inheriting"), (0x101, "recursive"),
])
def test_decode_kind(kind: int, text: str) -> None:
    state = decode(mutex(0, kind=kind))
    assert state.kind == text
    assert state.plausible


def test_decode_recursion_depth() -> None:
    state = decode(mutex(2, 3, TID, 1, 1))
    assert (state.recursion, state.owner, state.plausible) == (3, TID, True)


def test_decode_when_normal_mutex_has_depth_is_not_plausible() -> None:
    assert not decode(mutex(2, 3, TID, 1, 0)).plausible


@pytest.mark.parametrize("kind", [0x90, 0x20, 0xB0])
def test_decode_uses_the_word_that_the_kernel_checks(kind: int) -> None:
    # `__owner` is stale on purpose: the lock word decides
    state = decode(mutex(0x80000000 | TID, 0, 99, 1, kind))
    assert (state.locked, state.owner, state.owner_died, state.plausible) == (True, TID, False, True)


def test_decode_when_owner_died() -> None:
    state = decode(mutex(0xC0000000 | TID, 0, TID, 1, 0x90))
    assert state.owner_died


@pytest.mark.parametrize("special", [0x7FFFFFFF, 0x7FFFFFFE])
def test_decode_when_robust_mutex_is_unusable_has_no_owner(special: int) -> None:
    state = decode(mutex(0, 0, special, 0, 0x90))
    assert (state.locked, state.owner, state.plausible) == (False, None, True)


def test_decode_of_priority_protected_mutex_ignores_the_ceiling() -> None:
    state = decode(mutex(0x80002, 0, TID, 1, 0x40))
    assert (state.locked, state.owner, state.plausible) == (True, TID, True)
    assert not decode(mutex(0x80000, 0, 0, 0, 0x40)).locked


def test_decode_when_condition_variable_waiters_are_users() -> None:
    state = decode(mutex(0, 0, 0, 3))
    assert (state.locked, state.users, state.plausible) == (False, 3, True)


def test_decode_before_the_owner_is_stored() -> None:
    state = decode(mutex(1, 0, 0, 0))
    assert (state.locked, state.owner, state.plausible) == (True, None, True)


@pytest.mark.parametrize("data", [
    mutex(7, 0, TID, 1), mutex(2, 0, -TID, 1), mutex(2, 0, TID, 1 << 23), mutex(2, 0, TID, 1, 0x404),
    mutex(0, 0, TID, 0), mutex(2, 0, TID, 0), mutex(2, 0, TID, 1, 0x80000000),
], ids=["word", "owner", "users", "kind", "free but owned", "owner but no user", "negative kind"])
def test_decode_when_bytes_are_invalid_is_not_plausible(data: bytes) -> None:
    assert not decode(data).plausible


def test_decode_when_unaligned_is_not_plausible() -> None:
    assert not decode(mutex(2, 0, TID, 1), AT + 2).plausible


def test_decode_when_memory_is_truncated_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        decode(mutex(2, 0, TID, 1)[:16])
