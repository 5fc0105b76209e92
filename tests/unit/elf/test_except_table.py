from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gdbext.elf.except_table import LandingPad, find_landing_pad, iter_landing_pads, may_leave
from gdbext.errors import CorruptStructure, GdbextError, MemoryUnreadable
from tests.support.fake_memory import FakeMemory

TABLE, FUNCTION = 0x40_0FF0, 0x40_2000
# start, length, landing pad, action of each call; then the actions: (filter, distance to the next)
CALLS = bytes([0x00, 0x10, 0x00, 0, 0x10, 0x08, 0x60, 0, 0x20, 0x08, 0x70, 1, 0x30, 0x08, 0x78, 3])
ACTIONS = bytes([0x01, 0x00, 0x02, 0x01, 0x00, 0x00])
DATA = b"\xff\xff\x01" + bytes([len(CALLS)]) + CALLS + ACTIONS


def find(offset: int, data: bytes = DATA) -> LandingPad | None:
    return find_landing_pad(FakeMemory({TABLE: data + bytes(64)}), TABLE, FUNCTION, FUNCTION + offset)


def pad(offset: int, start: int, cleans_up: bool = True) -> LandingPad:
    return LandingPad(FUNCTION + offset, FUNCTION + start, FUNCTION + start + 8, cleans_up)


@pytest.mark.parametrize(("offset", "expected"), [
    (0x08, None), (0x10, pad(0x60, 0x10)), (0x17, pad(0x60, 0x10)), (0x18, None),
    (0x20, pad(0x70, 0x20, False)), (0x30, pad(0x78, 0x30)), (0x80, None)])
def test_landing_pad_of_a_call(offset: int, expected: LandingPad | None) -> None:
    """The actions are: none; a handler; and a handler with a cleanup after it."""
    assert find(offset) == expected


@pytest.mark.parametrize(("offset", "expected"), [
    (0x08, True), (0x10, True), (0x18, False), (0x34, True), (0x80, False)])
def test_exceptions_may_leave_calls_that_the_table_has(offset: int, expected: bool) -> None:
    """A call without an entry is in a part of the function that is noexcept."""
    memory = FakeMemory({TABLE: DATA + bytes(64)})
    assert may_leave(memory, TABLE, FUNCTION, FUNCTION + offset) == expected


def test_landing_pads_of_a_function() -> None:
    assert [*iter_landing_pads(FakeMemory({TABLE: DATA + bytes(64)}), TABLE, FUNCTION)] == [
        pad(0x60, 0x10), pad(0x70, 0x20, False), pad(0x78, 0x30)]


def test_landing_pads_may_have_a_base_of_their_own() -> None:
    data = b"\x00" + (0x50_0000).to_bytes(8, "little") + b"\xff\x01" + bytes([len(CALLS)]) + CALLS + ACTIONS
    assert find(0x10, data) == replace(pad(0, 0x10), address=0x50_0060)


def test_calls_may_have_words_of_four_bytes() -> None:
    words = b"".join(value.to_bytes(4, "little") for value in (0x10, 8, 0x60)) + b"\0"
    assert find(0x10, b"\xff\x9b\x10\x03" + bytes([len(words)]) + words) == pad(0x60, 0x10)


def test_actions_that_do_not_end_raise() -> None:
    with pytest.raises(CorruptStructure):
        find(0x20, DATA[:-6] + b"\x01\x7f" + bytes(4))


def test_unreadable_table_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        find_landing_pad(FakeMemory({}), TABLE, FUNCTION, FUNCTION)


def test_changed_bytes_raise_only_errors_of_gdbext() -> None:
    chooser = random.Random(3)
    found = 0
    for _ in range(3000):
        data = bytearray(DATA)
        for _ in range(chooser.randrange(1, 4)):
            data[chooser.randrange(len(data))] = chooser.randrange(256)
        try:
            found += find(chooser.randrange(0x40), bytes(data)) is not None
        except GdbextError:
            pass
    assert 0 < found < 3000
