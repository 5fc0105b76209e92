from __future__ import annotations

import struct

import pytest

from gdbext.glibc.condvar import CondvarState, find_condvar
from gdbext.layout.select import glibc_layouts
from tests.support.fake_memory import FakeMemory

AT = 0x2000


def old(wrefs: int, signals: tuple[int, int] = (0, 0), numbers: int = 9, start: int = 4) -> bytes:
    """A ``pthread_cond_t`` of glibc 2.25 - 2.40."""
    return struct.pack("<QQ2I2II I2I", numbers, start, 2, 0, 0, 1, 0, wrefs, *signals)


def new(wrefs: int, signals: tuple[int, int] = (0, 0)) -> bytes:
    """A ``pthread_cond_t`` of glibc 2.41 and later."""
    return struct.pack("<QQ2II I2I8x", 9, 4, 0, 1, 0, wrefs, *signals)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(("version", "make", "signals"), [
    ("2.25", old, 40), ("2.31", old, 40), ("2.36", old, 40), ("2.39", old, 40), ("2.41", new, 32), ("2.43", new, 32)])
def test_find_by_either_futex_word(version: str, make: object, signals: int, index: int) -> None:
    data = old(0x10) if make is old else new(0x10)
    memory = FakeMemory({AT - 16: bytes(16) + data})
    found = find_condvar(memory, glibc_layouts(version, "x86_64"), AT + signals + 4 * index, 2)
    assert found == CondvarState(AT, 2, False)


def test_process_shared_and_monotonic_bits() -> None:
    memory = FakeMemory({AT: old(0x8 | 1 | 2)})
    assert find_condvar(memory, glibc_layouts("2.36", "x86_64"), AT + 40, 1) == CondvarState(AT, 1, True)


@pytest.mark.parametrize(("wrefs", "sleepers"), [(0x8, 2), (0, 1), (0xC, 1), (1 << 31, 1), (0x28, 1)],
                         ids=["fewer than sleep", "none", "being destroyed", "impossibly many",
                              "more than ever came"])
def test_find_when_words_are_invalid_is_none(wrefs: int, sleepers: int) -> None:
    memory = FakeMemory({AT: old(wrefs)})
    assert find_condvar(memory, glibc_layouts("2.36", "x86_64"), AT + 40, sleepers) is None


def test_find_when_older_group_has_higher_numbers_is_none() -> None:
    memory = FakeMemory({AT: old(0x10, numbers=9, start=10)})
    assert find_condvar(memory, glibc_layouts("2.36", "x86_64"), AT + 40, 2) is None


def test_find_when_unreadable_is_none() -> None:
    assert find_condvar(FakeMemory(), glibc_layouts("2.36", "x86_64"), AT + 40, 1) is None
    # the futex word is readable, the count before it is not
    assert find_condvar(FakeMemory({AT + 40: bytes(8)}), glibc_layouts("2.36", "x86_64"), AT + 40, 1) is None


# -- glibc 2.24 and earlier ---------------------------------------------------------------------------------------

MUTEX = 0x6000
OLD_VERSIONS = ["2.17", "2.19", "2.21", "2.23"]


def oldest(total: int, wakeups: int, waiters: int, *, woken: int | None = None, mutex: int = MUTEX, clock: int = 0,
           lock: int = 0, word: int | None = None, broadcasts: int = 0) -> bytes:
    """A ``pthread_cond_t`` of glibc 2.24 and earlier, with `total` waits so far and `wakeups` of them woken."""
    word = total + wakeups if word is None else word
    return struct.pack("<iI3QQII", lock, word & 0xFFFFFFFF, total, wakeups, wakeups if woken is None else woken, mutex,
                       waiters << 1 | clock, broadcasts)


def find_oldest(data: bytes, sleepers: int, version: str = "2.23") -> CondvarState | None:
    memory = FakeMemory({AT - 64: bytes(64) + data + bytes(64)})
    return find_condvar(memory, glibc_layouts(version, "x86_64"), AT + 4, sleepers)


@pytest.mark.parametrize("version", OLD_VERSIONS)
@pytest.mark.parametrize("clock", [0, 1])
def test_find_old_when_waiting_for_a_signal(version: str, clock: int) -> None:
    assert find_oldest(oldest(3, 1, 2, clock=clock), 2, version) == CondvarState(AT, 2, False)


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_find_old_after_a_broadcast_has_the_mutex(version: str) -> None:
    # one of three was woken; two began to sleep here and now sleep on the mutex
    assert find_oldest(oldest(3, 3, 2, broadcasts=1), 2, version) == CondvarState(AT, 2, False, MUTEX)


def test_find_old_when_threads_came_after_the_broadcast_has_no_mutex() -> None:
    found = find_oldest(oldest(4, 3, 3, broadcasts=1), 3)
    assert found == CondvarState(AT, 3, False), "the moved waiters cannot be identified"


def test_find_old_when_shared_has_no_mutex() -> None:
    shared = (1 << 64) - 1
    assert find_oldest(oldest(3, 1, 2, mutex=shared), 2) == CondvarState(AT, 2, True)
    assert find_oldest(oldest(3, 3, 2, mutex=shared, broadcasts=1), 2) == CondvarState(AT, 2, True)


def test_find_old_when_word_wraps_around() -> None:
    assert find_oldest(oldest((1 << 32) + 2, 1 << 32, 2), 2) == CondvarState(AT, 2, False)


def test_find_old_while_a_thread_changes_it() -> None:
    assert find_oldest(oldest(3, 1, 2, word=3, lock=1), 2) == CondvarState(AT, 2, False)
    assert find_oldest(oldest(3, 1, 2, word=3), 2) is None


@pytest.mark.parametrize(("data", "sleepers"), [
    (oldest(3, 1, 1), 2), (oldest(3, 4, 2), 2), (oldest(3, 1, 2, woken=2), 2), (oldest(3, 1, 2, lock=7), 2),
    (oldest(3, 1, 1 << 23), 2), (oldest((1 << 64) - 1, 0, 2), 2), (bytes(48), 1), (b"\xff" * 48, 1),
], ids=["fewer than sleep", "more woken than came", "more left than woken", "lock", "impossibly many",
        "being destroyed", "zeros", "ones"])
def test_find_old_when_bytes_are_invalid_is_none(data: bytes, sleepers: int) -> None:
    assert find_oldest(data, sleepers) is None


def test_find_old_when_unreadable_is_none() -> None:
    layouts = glibc_layouts("2.23", "x86_64")
    assert find_condvar(FakeMemory(), layouts, AT + 4, 1) is None
    assert find_condvar(FakeMemory({AT: oldest(3, 1, 2)[:40]}), layouts, AT + 4, 2) is None
