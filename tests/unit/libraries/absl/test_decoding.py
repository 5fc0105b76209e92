from __future__ import annotations

import struct

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.libraries.absl import decoding as absl
from gdbext.libraries.absl.decoding import Awaited
from tests.support.fake_absl import HOW_READ, HOW_WRITE, FakeAbsl
from tests.support.fake_memory import FakeMemory

READER, WAITED_FOR, WRITER, WRITER_WAITS = 1, 4, 8, 32


def test_waiter() -> None:
    process = FakeAbsl()
    first, second = process.queue(2)
    process.wait(first, HOW_WRITE)
    process.wait(second, HOW_READ, condition=0x7000, mutex=process.lock)
    queue = frozenset((first, second))
    assert absl.read_waiter(process.memory, first + 64) == absl.Waiter(queue, False, False, None,
                                                                                     process.params(first))
    assert absl.read_waiter(process.memory, second + 64) == absl.Waiter(queue, True, True, process.lock,
                                                                                      process.params(second))
    assert absl.read_waiter(process.memory, first + 128) == absl.read_waiter(process.memory, first + 64)


@pytest.mark.parametrize(("offset", "value"), [
    (0, 0), (0, 0x123), (0, 1 << 46), (24, 0), (24, 2 << 32), (32, 0), (32, 0x7001)])
def test_damaged_synch(offset: int, value: int) -> None:
    process = FakeAbsl()
    (synch,) = process.queue(1)
    process.wait(synch, HOW_WRITE)
    process.memory.u64(synch + offset, value)
    try:
        assert absl.read_waiter(process.memory, synch + 64) is None
    except MemoryUnreadable:
        pass


def test_word_that_is_in_no_synch() -> None:
    process = FakeAbsl()
    first, second = process.queue(2)
    process.wait(first, HOW_WRITE)
    assert absl.read_waiter(process.memory, first + 68) is None
    # parameters of another thread, and a mode that does not exist
    process.memory.u64(second + 32, process.params(first))
    assert absl.read_waiter(process.memory, second + 64) is None
    process.memory.u64(process.params(first), HOW_WRITE - 8)
    assert absl.read_waiter(process.memory, first + 64) is None
    with pytest.raises(MemoryUnreadable):
        absl.read_waiter(FakeMemory(), 0x1040)


@pytest.mark.parametrize(("flags", "state", "readers"), [
    (WAITED_FOR | WRITER, "write-locked", 0),
    (WAITED_FOR | READER | WRITER_WAITS, "read-locked", 2),
    (WAITED_FOR, "free", 0),
])
def test_mutex(flags: int, state: str, readers: int) -> None:
    process = FakeAbsl()
    first, last = process.queue(2)
    for each in (first, last):
        process.wait(each, HOW_WRITE)
    process.memory.u64(last + 40, 0x201)
    process.memory.u64(process.lock, last | flags)
    for each in (first, last):
        waiter = absl.read_waiter(process.memory, each + 64)
        assert waiter is not None
        assert absl.find_awaited(process.memory, waiter, [0, each, process.lock, process.lock]) == Awaited(
            process.lock, state, readers)


def test_mutex_that_no_list_proves() -> None:
    process = FakeAbsl()
    first, other = process.queue(1)[0], process.queue(1)[0]
    process.wait(first, HOW_WRITE)
    waiter = absl.read_waiter(process.memory, first + 64)
    assert waiter is not None
    for word in (0, other | WAITED_FOR | WRITER, first | WRITER, first, first | READER | WAITED_FOR):
        process.memory.u64(process.lock, word)
        assert absl.find_awaited(process.memory, waiter, [process.lock]) is None
    # a copy of the word
    process.memory.u64(process.lock, first | WAITED_FOR | WRITER, first | WAITED_FOR | WRITER)
    assert absl.find_awaited(process.memory, waiter, [process.lock, process.lock + 8]) is None


def test_condvar_and_the_mutex_that_a_signal_moves_to() -> None:
    process = FakeAbsl()
    first, last = process.queue(2)
    condvar = process.lock + 0x40
    process.wait(first, HOW_WRITE, mutex=process.lock)
    waiter = absl.read_waiter(process.memory, first + 64)
    assert waiter is not None
    process.memory.u64(condvar, last | 2)
    assert absl.find_awaited(process.memory, waiter, [first, last, condvar]) == Awaited(condvar, None)
    process.memory.u64(process.lock, last | WAITED_FOR | WRITER)
    assert absl.find_awaited(process.memory, waiter, [condvar]) == Awaited(process.lock, "write-locked")


def test_list_without_end() -> None:
    process = FakeAbsl()
    first, last = process.queue(2)
    process.wait(first, HOW_WRITE)
    process.memory.write(last, struct.pack("<Q", last))
    waiter = absl.read_waiter(process.memory, first + 64)
    assert waiter is not None
    assert waiter.queue == {first, last}
