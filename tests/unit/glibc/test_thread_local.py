"""The first words of the thread-local memory of each module."""

from __future__ import annotations

from gdbext.glibc.thread_local import first_words
from tests.support.fake_memory import FakeMemory

PTHREAD, TABLE, BLOCK = 0x7F00_0000_0000, 0x5555_0000, 0x7F00_0001_0000


def laid_out(count: int) -> FakeMemory:
    memory = FakeMemory({PTHREAD: bytes(16), TABLE: bytes(0x100), BLOCK: bytes(0x100)})
    memory.u64(PTHREAD, PTHREAD, TABLE + 16)
    memory.u64(TABLE, count, 0, 1, 0, BLOCK, 0, (1 << 64) - 1, 0, BLOCK + 0x40, 0)
    memory.u64(BLOCK, 11, 12)
    memory.u64(BLOCK + 0x40, 21, 22)
    return memory


def test_words_of_allocated_modules() -> None:
    assert list(first_words(laid_out(3), "x86_64", PTHREAD)) == [11, 12, 21, 22]


def test_only_as_many_modules_as_there_are() -> None:
    assert list(first_words(laid_out(1), "x86_64", PTHREAD)) == [11, 12]


def test_unreadable() -> None:
    assert list(first_words(FakeMemory(), "x86_64", PTHREAD)) == []
    assert list(first_words(laid_out(1 << 40), "x86_64", PTHREAD)) == []
