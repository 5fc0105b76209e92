from __future__ import annotations

import struct

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.glibc.barrier import BarrierState, decode_barrier, find_barrier
from gdbext.layout.select import glibc_layouts
from tests.support.fake_memory import FakeMemory

AT = 0x4000
NEW, OLD = "2.36", "2.17"


def barrier(entered: int, start: int, count: int, shared: int = 0, left: int | None = None) -> bytes:
    """A ``pthread_barrier_t`` of glibc 2.23 and later."""
    return struct.pack("<5I12x", entered, start, count, shared, start if left is None else left)


def old(event: int, left: int, count: int, private: int = 0x80, lock: int = 0) -> bytes:
    """A ``pthread_barrier_t`` of glibc 2.22 and earlier; `left` counts the missing threads."""
    return struct.pack("<5I12x", event, lock, left, count, private)


def decode(data: bytes, version: str = NEW, address: int = AT) -> BarrierState:
    return decode_barrier(FakeMemory({address: data}), glibc_layouts(version, "x86_64"), address)


def find(data: bytes, word: int, expected: int, sleepers: int, version: str = NEW) -> BarrierState | None:
    memory = FakeMemory({AT - 64: bytes(64) + data + bytes(64)})
    return find_barrier(memory, glibc_layouts(version, "x86_64"), AT + word, expected, sleepers)


@pytest.mark.parametrize("version", ["2.23", "2.27", "2.31", "2.36", "2.39", "2.41", "2.43"])
def test_decode_when_two_of_three_have_arrived(version: str) -> None:
    assert decode(barrier(8, 6, 3), version) == BarrierState(AT, 3, 2, 1, False, True)


@pytest.mark.parametrize("version", ["2.17", "2.19", "2.21"])
def test_decode_before_2_23_uses_the_count_of_missing_threads(version: str) -> None:
    assert decode(old(7, 1, 3), version) == BarrierState(AT, 3, 2, 1, False, True)


def test_decode_when_no_thread_has_arrived() -> None:
    assert decode(barrier(0, 0, 5)) == BarrierState(AT, 5, 0, 5, False, True)
    assert decode(old(0, 5, 5), OLD) == BarrierState(AT, 5, 0, 5, False, True)


def test_flag_of_a_shared_barrier_was_inverted_before_2_23() -> None:
    assert decode(barrier(1, 0, 2, shared=0x80)).process_shared
    assert decode(old(0, 1, 2, private=0), OLD).process_shared


def test_decode_when_threads_of_the_last_round_have_not_left() -> None:
    assert decode(barrier(7, 6, 3, left=4)).plausible


@pytest.mark.parametrize("data", [
    barrier(8, 6, 0), barrier(5, 6, 3), barrier(10, 6, 3), barrier(8, 7, 3), barrier(8, 6, 3, shared=1),
    barrier(8, 6, 3, left=7), barrier(1, 0, 1 << 23), barrier(8, 6, 3)[4:] + bytes(4), b"\xff" * 32,
], ids=["no count", "fewer than the round began with", "more than the round has", "a round begins in its midst",
        "flag", "more left than came", "count", "4 bytes off", "ones"])
def test_decode_when_bytes_are_invalid_is_not_plausible(data: bytes) -> None:
    assert not decode(data).plausible


@pytest.mark.parametrize("data", [
    old(7, 1, 0), old(7, 4, 3), old(7, 1, 3, private=1), old(7, 1, 3, lock=3), old(7, 1, 1 << 23), b"\xff" * 32,
], ids=["no count", "more are missing than must come", "flag", "lock", "count", "ones"])
def test_decode_before_2_23_when_bytes_are_invalid_is_not_plausible(data: bytes) -> None:
    assert not decode(data, OLD).plausible


def test_decode_when_unaligned_is_not_plausible() -> None:
    assert not decode(barrier(8, 6, 3), address=AT + 2).plausible


def test_decode_when_memory_is_truncated_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        decode(barrier(8, 6, 3)[:16])


def test_find_by_futex_word() -> None:
    assert find(barrier(8, 6, 3), 4, 6, 2) == BarrierState(AT, 3, 2, 1, False, True)
    assert find(old(7, 1, 3), 0, 7, 2, OLD) == BarrierState(AT, 3, 2, 1, False, True)


def test_find_when_arrived_threads_do_not_sleep_yet() -> None:
    assert find(barrier(8, 6, 3), 4, 6, 1) is not None


@pytest.mark.parametrize(("data", "word", "expected", "sleepers"), [
    (barrier(8, 6, 3), 4, 3, 2), (barrier(8, 6, 3), 4, 6, 3), (barrier(8, 6, 3), 4, 6, 0),
    (barrier(9, 6, 3), 4, 6, 3), (barrier(8, 6, 3), 0, 8, 2), (barrier(8, 6, 3), 8, 3, 2), (bytes(32), 4, 0, 1),
], ids=["another round", "more sleep than have arrived", "no thread sleeps", "no thread is missing", "`in`", "`count`",
        "zeros"])
def test_find_when_wait_does_not_fit_is_none(data: bytes, word: int, expected: int, sleepers: int) -> None:
    assert find(data, word, expected, sleepers) is None


@pytest.mark.parametrize(("data", "word", "expected", "sleepers"), [
    (old(7, 1, 3), 0, 6, 2), (old(7, 1, 3), 0, 7, 3), (old(7, 0, 3), 0, 7, 3), (bytes(32), 0, 0, 1),
], ids=["another round", "more sleep than have arrived", "no thread is missing", "zeros"])
def test_find_before_2_23_when_wait_does_not_fit_is_none(data: bytes, word: int, expected: int, sleepers: int) -> None:
    assert find(data, word, expected, sleepers, OLD) is None


def test_find_when_unreadable_is_none() -> None:
    layouts = glibc_layouts(NEW, "x86_64")
    assert find_barrier(FakeMemory(), layouts, AT + 4, 6, 2) is None
    assert find_barrier(FakeMemory({AT + 4: barrier(8, 6, 3)[4:]}), layouts, AT + 4, 6, 2) is None
