from __future__ import annotations

import struct

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.glibc.semaphore import SemaphoreState, decode_semaphore
from gdbext.layout.select import glibc_layouts
from tests.support.fake_memory import FakeMemory

AT = 0x3000


def decode(value: int, waiters: int, private: int) -> SemaphoreState:
    memory = FakeMemory({AT: struct.pack("<IIII", value, waiters, private, 0)})
    return decode_semaphore(memory, glibc_layouts("2.36", "x86_64"), AT)


@pytest.mark.parametrize(("value", "waiters", "private", "expected"), [
    (0, 2, 0, SemaphoreState(AT, 0, 2, False, True)),
    (5, 0, 0, SemaphoreState(AT, 5, 0, False, True)),
    (0, 1, 0x80, SemaphoreState(AT, 0, 1, True, True)),
    (0x7FFFFFFF, 0, 0, SemaphoreState(AT, 0x7FFFFFFF, 0, False, True)),
    (0, 2, 1, SemaphoreState(AT, 0, 2, False, False)),
    (0, 1 << 23, 0, SemaphoreState(AT, 0, 1 << 23, False, False)),
    (0x80000000, 0, 0, SemaphoreState(AT, 0x80000000, 0, False, False)),
], ids=["two wait", "free", "shared", "largest", "private is odd", "too many wait", "value too large"])
def test_decode(value: int, waiters: int, private: int, expected: SemaphoreState) -> None:
    assert decode(value, waiters, private) == expected


@pytest.mark.parametrize("version", ["2.17", "2.19"])
@pytest.mark.parametrize(("value", "private", "waiters", "expected"), [
    (0, 0x80, 2, SemaphoreState(AT, 0, 2, False, True)),
    (5, 0x80, 0, SemaphoreState(AT, 5, 0, False, True)),
    (0, 0, 1, SemaphoreState(AT, 0, 1, True, True)),
    (0, 1, 2, SemaphoreState(AT, 0, 2, False, False)),
    (0, 0x80, 1 << 32, SemaphoreState(AT, 0, 1 << 32, False, False)),
], ids=["two wait", "free", "shared", "private is odd", "too many wait"])
def test_decode_before_2_21(version: str, value: int, private: int, waiters: int, expected: SemaphoreState) -> None:
    # the flag of a shared semaphore was inverted
    memory = FakeMemory({AT: struct.pack("<IIQ", value, private, waiters)})
    assert decode_semaphore(memory, glibc_layouts(version, "x86_64"), AT) == expected


def test_decode_when_memory_is_truncated_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        decode_semaphore(FakeMemory({AT: bytes(8)}), glibc_layouts("2.36", "x86_64"), AT)
