"""The words are those that glibc 2.23 and 2.31 - 2.43 store in the named states."""

from __future__ import annotations

import struct

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.glibc.rwlock import RwlockState, decode_rwlock, find_rwlock, lock_of_word
from gdbext.layout.select import glibc_layouts
from tests.support.fake_memory import FakeMemory

TID = 898
AT = 0x7F00_1000
SURROUNDINGS = {"zeros": b"\0", "ones": b"\xff", "small numbers": b"\x03\0\0\0",
                "pointers": b"\x40\x12\0\0\x55\x55\0\0"}


def rwlock(readers: int, writers: int = 0, wrphase: int = 0, writers_futex: int = 0, cur_writer: int = 0,
           shared: int = 0, flags: int = 0, pads: tuple[int, int] = (0, 0)) -> bytes:
    """The bytes of a ``pthread_rwlock_t``."""
    return struct.pack("<8I16xI4x", readers, writers, wrphase, writers_futex, *pads, cur_writer & 0xFFFFFFFF, shared,
                       flags)


WRITE_LOCKED_READER_AND_WRITER_WAIT = rwlock(0xB, wrphase=3, writers_futex=3, cur_writer=TID)
READ_LOCKED_WRITER_WAITS = rwlock(0xA, wrphase=2, writers_futex=1)
READ_LOCKED_TWO_WRITERS_WAIT = rwlock(0xA, wrphase=2, writers_futex=3)
PREFER_WRITER_READER_WAITS = rwlock(0xE, wrphase=2, writers_futex=1, flags=2)
PREFER_WRITER_WRITER_WAITS = rwlock(0x3, 1, wrphase=1, writers_futex=3, cur_writer=TID, flags=2)


def decode(data: bytes, address: int = AT, version: str = "2.36") -> RwlockState:
    return decode_rwlock(FakeMemory({address: data}), glibc_layouts(version, "x86_64"), address)


@pytest.mark.parametrize("version", ["2.25", "2.31", "2.36", "2.41", "2.43"])
@pytest.mark.parametrize(("data", "expected"), [
    (bytes(56), RwlockState(AT, "free", None, 0, 0, False, True)),
    (rwlock(1), RwlockState(AT, "free", None, 0, 0, False, True)),
    (rwlock(8 * 3), RwlockState(AT, "read-locked", None, 3, 0, False, True)),
    (rwlock(3, wrphase=1, writers_futex=1, cur_writer=TID), RwlockState(AT, "write-locked", TID, 0, 0, False, True)),
    (rwlock(3, wrphase=1, writers_futex=1), RwlockState(AT, "write-locked", None, 0, 0, False, True)),
    (rwlock(2, writers_futex=1), RwlockState(AT, "changing hands", None, 0, 0, False, True)),
    (rwlock(0x11, wrphase=1), RwlockState(AT, "changing hands", None, 0, 2, False, True)),
    (WRITE_LOCKED_READER_AND_WRITER_WAIT, RwlockState(AT, "write-locked", TID, 0, 1, False, True)),
    (READ_LOCKED_WRITER_WAITS, RwlockState(AT, "read-locked", None, 1, 0, True, True)),
    (READ_LOCKED_TWO_WRITERS_WAIT, RwlockState(AT, "read-locked", None, 1, 0, True, True)),
    (PREFER_WRITER_READER_WAITS, RwlockState(AT, "read-locked", None, 1, 0, True, True)),
    (PREFER_WRITER_WRITER_WAITS, RwlockState(AT, "write-locked", TID, 0, 0, False, True)),
], ids=["initialised", "free after a writer", "three readers", "writer", "writer not noted yet",
        "writer about to start", "from a writer to readers", "writer, both wait", "reader, writer waits",
        "reader, two writers wait", "kind 2: reader, writer and reader wait", "kind 2: writer, writer waits"])
def test_decode_states(data: bytes, expected: RwlockState, version: str) -> None:
    assert decode(data, version=version) == expected


@pytest.mark.parametrize("data", [
    rwlock(8, pads=(1, 0)), rwlock(8, pads=(0, 1)), rwlock(8, shared=7), rwlock(8, flags=3), rwlock(8, wrphase=4),
    rwlock(8, writers_futex=2), rwlock(8, writers_futex=4), rwlock(8 << 23), rwlock(8, 1 << 23),
    rwlock(3, wrphase=3, writers_futex=3, cur_writer=-5), rwlock(3, cur_writer=TID), rwlock(8, cur_writer=TID),
], ids=["pad 3", "pad 4", "shared", "flags", "wrphase", "writers futex 2", "writers futex 4", "readers", "writers",
        "negative TID", "writer without its words", "readers and a writer"])
def test_decode_when_bytes_are_invalid_is_not_plausible(data: bytes) -> None:
    assert not decode(data).plausible


def test_decode_ignores_the_hand_over_bit_of_the_writers() -> None:
    assert decode(rwlock(8, 0x80000001)).plausible


def test_decode_when_memory_is_truncated_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        decode(rwlock(8)[:32])


def surrounded(lock: bytes, filler: bytes) -> FakeMemory:
    around = filler * (64 // len(filler))
    return FakeMemory({AT - 64: around + lock + around})


@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize(("data", "word", "expected", "mode"), [
    (WRITE_LOCKED_READER_AND_WRITER_WAIT, 8, 3, "shared"),
    (WRITE_LOCKED_READER_AND_WRITER_WAIT, 12, 3, "exclusive"),
    (READ_LOCKED_WRITER_WAITS, 8, 2, "exclusive"),
    (READ_LOCKED_TWO_WRITERS_WAIT, 12, 3, "exclusive"),
    (PREFER_WRITER_READER_WAITS, 0, 0xE, "shared"),
    (PREFER_WRITER_WRITER_WAITS, 12, 3, "exclusive"),
], ids=["reader behind writer", "writer behind writer", "writer behind reader", "writer behind waiting writer",
        "kind 2: reader behind waiting writer", "kind 2: writer behind writer"])
def test_find_by_futex_word(data: bytes, word: int, expected: int, mode: str, around: str) -> None:
    memory = surrounded(data, SURROUNDINGS[around])
    found = find_rwlock(memory, glibc_layouts("2.36", "x86_64"), AT + word, expected)
    assert found is not None
    state, wanted = found
    assert (state.address, wanted) == (AT, mode)
    assert state == decode(data)


@pytest.mark.parametrize(("data", "word", "expected"), [
    (bytes(56), 12, 3), (bytes(56), 8, 2), (bytes(56), 0, 0xC),
    (WRITE_LOCKED_READER_AND_WRITER_WAIT, 12, 2), (READ_LOCKED_WRITER_WAITS, 8, 3),
    (WRITE_LOCKED_READER_AND_WRITER_WAIT, 4, 3), (PREFER_WRITER_READER_WAITS, 0, 0xA),
    (PREFER_WRITER_WRITER_WAITS, 8, 3),
], ids=["free, writers", "free, phase", "free, readers", "wrong value", "writer pending, reader's value",
        "no futex word", "the waiting bit is not set", "no reader is registered"])
def test_find_when_wait_does_not_fit_is_none(data: bytes, word: int, expected: int) -> None:
    assert find_rwlock(surrounded(data, b"\0"), glibc_layouts("2.36", "x86_64"), AT + word, expected) is None


def test_find_when_two_locks_fit_is_none() -> None:
    # a writer behind a writer of the lock at AT, or a reader behind a writer of a lock 4 bytes later
    memory = FakeMemory({AT - 16: bytes(16) + struct.pack("<4I", 3, 0xB, 1, 3) + bytes(64)})
    layouts = glibc_layouts("2.36", "x86_64")
    for base in (AT, AT + 4):
        state = decode_rwlock(memory, layouts, base)
        assert (state.state, state.plausible) == ("write-locked", True)
    assert find_rwlock(memory, layouts, AT + 12, 3) is None


def test_find_at_the_start_of_memory() -> None:
    memory = FakeMemory({AT: READ_LOCKED_WRITER_WAITS})
    found = find_rwlock(memory, glibc_layouts("2.36", "x86_64"), AT + 8, 2)
    assert found is not None
    assert found[0].address == AT


@pytest.mark.parametrize(("word", "member"), [(0, "__readers"), (4, "__writers"), (8, "__wrphase_futex"),
                                              (12, "__writers_futex"), (24, "__cur_writer")])
def test_lock_of_word_by_address_of_a_member(word: int, member: str) -> None:
    memory = surrounded(WRITE_LOCKED_READER_AND_WRITER_WAIT, b"\xff")
    assert lock_of_word(glibc_layouts("2.36", "x86_64"), memory, AT + word) == [(AT, member)]


# -- glibc 2.24 and earlier ---------------------------------------------------------------------------------------

OLD_VERSIONS = ["2.17", "2.19", "2.21", "2.23"]


def old(readers: int = 0, writer: int = 0, readers_waiting: int = 0, writers_waiting: int = 0, *, lock: int = 0,
        readers_woken: int = 0, writers_woken: int = 0, shared: int = 0, flags: int = 0, end: int = 0) -> bytes:
    """The bytes of a ``pthread_rwlock_t`` of glibc 2.24 and earlier."""
    return struct.pack("<iIIIIIiI16xII", lock, readers, readers_woken, writers_woken, readers_waiting, writers_waiting,
                       writer, shared, flags, end)


OLD_WRITE_LOCKED = old(writer=TID, readers_waiting=1, writers_waiting=1, writers_woken=1)
OLD_READ_LOCKED = old(1, writers_waiting=1)
OLD_PREFER_WRITER = old(1, readers_waiting=1, writers_waiting=1, flags=1)


def find_old(data: bytes, word: int, expected: int, sleepers: int = 0) -> tuple[RwlockState, str] | None:
    return find_rwlock(surrounded(data, b"\0"), glibc_layouts("2.23", "x86_64"), AT + word, expected, sleepers)


@pytest.mark.parametrize("version", OLD_VERSIONS)
@pytest.mark.parametrize(("data", "expected"), [
    (bytes(56), RwlockState(AT, "free", None, 0, 0, False, True)),
    (old(3), RwlockState(AT, "read-locked", None, 3, 0, False, True)),
    (old(writer=TID), RwlockState(AT, "write-locked", TID, 0, 0, False, True)),
    (old(writers_waiting=1, writers_woken=1), RwlockState(AT, "changing hands", None, 0, 0, False, True)),
    (old(readers_waiting=2, readers_woken=1), RwlockState(AT, "changing hands", None, 0, 2, False, True)),
    (OLD_WRITE_LOCKED, RwlockState(AT, "write-locked", TID, 0, 1, False, True)),
    (OLD_READ_LOCKED, RwlockState(AT, "read-locked", None, 1, 0, True, True)),
    (OLD_PREFER_WRITER, RwlockState(AT, "read-locked", None, 1, 1, True, True)),
    (old(1, shared=0x80), RwlockState(AT, "read-locked", None, 1, 0, False, True, True)),
], ids=["free", "three readers", "writer", "given to a writer", "given to readers", "write-locked, both wait",
        "read-locked, a writer waits", "a reader waits behind a writer that is preferred", "shared"])
def test_decode_old_states(data: bytes, expected: RwlockState, version: str) -> None:
    assert decode(data, version=version) == expected


@pytest.mark.parametrize("data", [
    old(1, TID), old(1, lock=3), old(1, shared=1), old(1, flags=3), old(writer=-5), old(1 << 23),
    old(1, readers_waiting=1 << 23), old(1, writers_waiting=1 << 23), old(1, end=1), b"\xff" * 56,
], ids=["reader and writer", "lock", "shared", "flags", "negative TID", "readers", "waiting readers",
        "waiting writers", "end", "ones"])
def test_decode_old_when_bytes_are_invalid_is_not_plausible(data: bytes) -> None:
    assert not decode(data, version="2.23").plausible


def test_decode_old_when_memory_is_truncated_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        decode(old(1)[:52], version="2.23")


@pytest.mark.parametrize(("data", "word", "expected", "mode"), [
    (OLD_WRITE_LOCKED, 8, 0, "shared"), (OLD_WRITE_LOCKED, 12, 1, "exclusive"), (OLD_WRITE_LOCKED, 12, 0, "exclusive"),
    (OLD_READ_LOCKED, 12, 0, "exclusive"), (OLD_PREFER_WRITER, 8, 0, "shared"), (OLD_PREFER_WRITER, 12, 0, "exclusive"),
], ids=["reader behind writer", "writer behind writer", "writer that was not woken with the other",
        "writer behind reader", "reader behind preferred writer", "preferred writer"])
@pytest.mark.parametrize("sleepers", [0, 1])
def test_find_old_by_futex_word(data: bytes, word: int, expected: int, mode: str,
                                                  sleepers: int) -> None:
    found = find_old(data, word, expected, sleepers)
    assert found is not None
    state, wanted = found
    assert (state, wanted) == (decode(data, version="2.23"), mode)


@pytest.mark.parametrize(("data", "word", "expected", "sleepers"), [
    (bytes(56), 8, 0, 0), (bytes(56), 12, 0, 0), (OLD_WRITE_LOCKED, 8, 1, 0), (OLD_WRITE_LOCKED, 12, 2, 0),
    (OLD_WRITE_LOCKED, 4, 0, 0), (OLD_READ_LOCKED, 8, 0, 0), (OLD_WRITE_LOCKED, 12, 1, 2),
    (OLD_WRITE_LOCKED, 8, 0, 2),
], ids=["free, readers", "free, writers", "readers were woken", "a value that was not there yet", "no futex word",
        "no reader waits", "more writers sleep than wait", "more readers sleep than wait"])
def test_find_old_when_wait_does_not_fit_is_none(data: bytes, word: int, expected: int,
                                                                  sleepers: int) -> None:
    assert find_old(data, word, expected, sleepers) is None


def test_find_old_when_readers_are_preferred_is_none() -> None:
    memory = surrounded(old(1, readers_waiting=1, writers_waiting=1), b"\xff")
    assert find_rwlock(memory, glibc_layouts("2.23", "x86_64"), AT + 8, 0) is None


def test_find_old_when_word_is_a_mutex_is_none() -> None:
    # its owner's TID is at the count of waiting writers, its number of users at the writer; it is in a packed
    # structure, otherwise the rwlock would not be aligned
    mutex = struct.pack("<5I20x", 2, 0, TID, 4, 0)
    memory = FakeMemory({AT - 60: bytes(64) + mutex + bytes(64)})
    layouts = glibc_layouts("2.23", "x86_64")
    assert find_rwlock(memory, layouts, AT + 4, 2) is not None, "its bytes could well be a rwlock's"
    assert find_rwlock(memory, layouts, AT + 4, 2, 3) is None


def test_find_old_when_shared_counts_other_processes() -> None:
    shared = old(writer=TID, writers_waiting=3, shared=0x80)
    assert find_old(shared, 12, 0, 1) is not None
    assert find_old(shared, 12, 0, 4) is None


@pytest.mark.parametrize(("word", "member"), [(0, "__lock"), (4, "__nr_readers"), (8, "__readers_wakeup"),
                                              (12, "__writer_wakeup"), (24, "__writer")])
def test_lock_of_word_old_by_address_of_a_member(word: int, member: str) -> None:
    memory = surrounded(OLD_WRITE_LOCKED, b"\xff")
    assert lock_of_word(glibc_layouts("2.23", "x86_64"), memory, AT + word) == [(AT, member)]
