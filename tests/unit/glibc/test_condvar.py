from __future__ import annotations

import struct

import pytest

from gdbext.glibc.condvar import CondvarState, find_condvar
from gdbext.layout.select import glibc_layouts
from tests.support.fake_memory import FakeMemory

AT = 0x2000


def old(wrefs: int, signals: tuple[int, int] = (0, 0)) -> bytes:
    """A ``pthread_cond_t`` of glibc 2.25 - 2.40."""
    return struct.pack("<QQ2I2II I2I", 9, 4, 2, 0, 0, 1, 0, wrefs, *signals)


def new(wrefs: int, signals: tuple[int, int] = (0, 0)) -> bytes:
    """A ``pthread_cond_t`` of glibc 2.41 and later."""
    return struct.pack("<QQ2II I2I8x", 9, 4, 0, 1, 0, wrefs, *signals)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(("version", "make", "signals"), [("2.36", old, 40), ("2.41", new, 32), ("2.43", new, 32)])
def test_found_from_either_word(version: str, make: object, signals: int, index: int) -> None:
    data = old(0x10) if make is old else new(0x10)
    memory = FakeMemory({AT - 16: bytes(16) + data})
    found = find_condvar(memory, glibc_layouts(version, "x86_64"), AT + signals + 4 * index, 2)
    assert found == CondvarState(AT, 2, False)


def test_backported_layout_still_counts_its_waiters() -> None:
    memory = FakeMemory({AT - 16: bytes(16) + new(0x18)})
    found = find_condvar(memory, glibc_layouts("2.36", "x86_64"), AT + 32, 3)
    assert found is not None
    assert found.waiters == 3


def test_process_shared_and_monotonic_bits() -> None:
    memory = FakeMemory({AT: old(0x8 | 1 | 2)})
    assert find_condvar(memory, glibc_layouts("2.36", "x86_64"), AT + 40, 1) == CondvarState(AT, 1, True)


@pytest.mark.parametrize(("wrefs", "sleepers"), [(0x8, 2), (0, 1), (0xC, 1), (1 << 31, 1)],
                         ids=["fewer than sleep", "none", "being destroyed", "impossibly many"])
def test_other_words_are_no_condvar(wrefs: int, sleepers: int) -> None:
    memory = FakeMemory({AT: old(wrefs)})
    assert find_condvar(memory, glibc_layouts("2.36", "x86_64"), AT + 40, sleepers) is None


def test_unreadable_is_no_condvar() -> None:
    assert find_condvar(FakeMemory(), glibc_layouts("2.36", "x86_64"), AT + 40, 1) is None
    # the word slept on is readable, the count before it is not
    assert find_condvar(FakeMemory({AT + 40: bytes(8)}), glibc_layouts("2.36", "x86_64"), AT + 40, 1) is None
