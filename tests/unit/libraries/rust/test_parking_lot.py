from __future__ import annotations

import struct

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.libraries.rust import parking_lot
from gdbext.libraries.rust.parking_lot import TO_READ, TO_UPGRADE, TO_WRITE, ParkedThread
from gdbext.libraries.rust.std import RwLockState
from tests.support.fake_memory import FakeMemory

LOCK, DATA, TABLE, BUCKETS = 0x5555_0000_1000, 0x5555_0000_2000, 0x5555_0000_4000, 0x5555_0001_0000
VARIABLES = 0x40_0000
BITS = 5


def bucket(key: int) -> int:
    return BUCKETS + 64 * (key * 0x9E3779B97F4A7C15 % (1 << 64) >> 64 - BITS)


class Process:
    """The hash table of the crate, and threads in its queues."""

    def __init__(self) -> None:
        self.memory = FakeMemory({at: bytes(0x1000) for at in (LOCK, DATA, VARIABLES, TABLE, BUCKETS)})
        self.memory.write(TABLE, struct.pack("<QQQI", BUCKETS, 1 << BITS, 0, BITS))
        self.memory.u64(VARIABLES + 0x128, TABLE)
        self.count = 0

    def park(self, key: int, token: int = 0) -> ParkedThread:
        data = DATA + 0x40 * self.count
        self.count += 1
        self.memory.write(data, struct.pack("<QQQQI", key, 0, 0, token, 1))
        lock, first, last = struct.unpack("<QQQ", self.memory.read(bucket(key), 24))
        self.memory.u64(bucket(key), lock, first or data, data)
        if last:
            self.memory.u64(last + 8, data)
        return ParkedThread(data, key, token)


def test_parked_thread() -> None:
    process = Process()
    parked = process.park(LOCK + 1, TO_WRITE)
    assert parking_lot.read_parked(process.memory, parked.data + 32) == parked
    assert parking_lot.read_parked(process.memory, parked.data + 36) is None


@pytest.mark.parametrize(("offset", "value"), [(0, 0), (0, 1 << 60), (8, 1), (8, 1 << 48), (32, 0), (32, 2)])
def test_word_that_is_in_no_thread_data(offset: int, value: int) -> None:
    process = Process()
    parked = process.park(LOCK)
    process.memory.u64(parked.data + offset, value)
    assert parking_lot.read_parked(process.memory, parked.data + 32) is None


def test_unreadable_thread_data() -> None:
    with pytest.raises(MemoryUnreadable):
        parking_lot.read_parked(FakeMemory(), DATA)


def test_table_is_found_by_the_queue_of_a_key() -> None:
    process = Process()
    parked = [process.park(LOCK), process.park(LOCK), process.park(LOCK)]
    for each in parked:
        assert parking_lot.is_in_queue(process.memory, TABLE, each)
        assert parking_lot.find_table(process.memory, VARIABLES, VARIABLES + 0x1000, each) == VARIABLES + 0x128
    assert parking_lot.find_table(process.memory, VARIABLES + 0x200, VARIABLES + 0x1000, parked[0]) is None
    assert parking_lot.find_table(process.memory, 0x10, 0x1000, parked[0]) is None


def test_thread_that_is_in_no_queue() -> None:
    process = Process()
    parked = process.park(LOCK)
    other = ParkedThread(parked.data + 0x40, LOCK, 0)
    assert not parking_lot.is_in_queue(process.memory, TABLE, other)
    process.memory.u64(bucket(LOCK), 0, 0, 0)
    assert not parking_lot.is_in_queue(process.memory, TABLE, parked)


@pytest.mark.parametrize(("offset", "value"), [(0, 0), (0, BUCKETS + 8), (8, 31), (24, 6), (24, 0), (24, 64)])
def test_damaged_table(offset: int, value: int) -> None:
    process = Process()
    parked = process.park(LOCK)
    process.memory.u64(TABLE + offset, value)
    assert not parking_lot.is_in_queue(process.memory, TABLE, parked)


def test_circular_queue_ends() -> None:
    process = Process()
    first, second = process.park(LOCK), process.park(LOCK)
    process.memory.u64(second.data + 8, first.data)
    process.memory.u64(bucket(LOCK) + 16, 0x10)
    assert not parking_lot.is_in_queue(process.memory, TABLE, ParkedThread(DATA + 0x400, LOCK, 0))


@pytest.mark.parametrize(("byte", "locked"), [(0, None), (1, None), (2, False), (3, True), (4, None), (7, None)])
def test_mutex(byte: int, locked: bool | None) -> None:
    assert parking_lot.is_locked_mutex(FakeMemory({LOCK: bytes([byte])}), LOCK) is locked


@pytest.mark.parametrize(("byte", "runs"), [(12, True), (4, False), (8, False), (1, False), (3, False)])
def test_once(byte: int, runs: bool) -> None:
    assert parking_lot.is_running_once(FakeMemory({LOCK: bytes([byte])}), LOCK) is runs


def test_condvar() -> None:
    memory = FakeMemory({LOCK: bytes(64)})
    assert parking_lot.mutex_of_condvar(memory, LOCK) is None
    memory.u64(LOCK, LOCK + 32)
    assert parking_lot.mutex_of_condvar(memory, LOCK) == LOCK + 32
    assert parking_lot.mutex_of_condvar(memory, LOCK + 4) is None
    memory.u64(LOCK + 32, 4)
    assert parking_lot.mutex_of_condvar(memory, LOCK) is None
    memory.u64(LOCK, 0x1234_5678)  # unmapped
    assert parking_lot.mutex_of_condvar(memory, LOCK) is None


@pytest.mark.parametrize(("word", "key", "token", "expected"), [
    (1 | 8, LOCK, TO_READ, ("write-locked", 0)),
    (1 | 8, LOCK, TO_WRITE, ("write-locked", 0)),
    (1 | 2 << 4, LOCK, TO_WRITE, ("read-locked", 2)),
    # a writer waits for the readers, and the others for the writer
    (1 | 2 | 8 | 2 << 4, LOCK + 1, TO_WRITE, ("read-locked", 2)),
    (1 | 2 | 8 | 2 << 4, LOCK, TO_READ, ("read-locked", 2)),
    (1 | 4 | 1 << 4, LOCK, TO_UPGRADE, ("read-locked", 1)),
    (1, LOCK, TO_WRITE, ("free", 0)),
    # contradictions
    (8, LOCK, TO_READ, None),
    (1 | 8, LOCK + 1, TO_WRITE, None),
    (1 | 2 | 8 | 2 << 4, LOCK + 1, TO_READ, None),
    (1 | 8, LOCK + 2, TO_WRITE, None),
    (1 | 8, LOCK, 0, None),
    (1 | 8, LOCK, 3, None),
    (1 | 1 << 40, LOCK, TO_WRITE, None),
])
def test_rwlock(word: int, key: int, token: int, expected: tuple[str, int] | None) -> None:
    memory = FakeMemory({LOCK: struct.pack("<Q", word)})
    state = parking_lot.decode_rwlock(memory, ParkedThread(DATA, key, token))
    assert state == (RwLockState(LOCK, *expected) if expected is not None else None)
