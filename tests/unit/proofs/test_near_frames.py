"""The frames that have an address near that of a lock: in a register, in their part of the stack, or in arguments."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest

from gdbext.proofs.near_frames import frames_near
from tests.support.fake_memory import FakeMemory

STACK, LOCK, CODE = 0x7F00_0000_1000, 0x5555_5677_8120, 0x5555_5677_2000
#: Three frames of 0x400 bytes each, and one whose end is not known.
NATIVE = [(0x1000 + index, STACK + 0x400 * index) for index in range(4)]
FAR = 1 << 16


def is_code(address: int) -> bool:
    return CODE <= address < CODE + 0x1000


def near(words: Mapping[int, int], registers: Mapping[int, int | None] | None = None) -> list[int]:
    """The frames with a known end that are found.

    :param words: words by their distances from the innermost stack pointer.
    :param registers: a register of each frame, None if not all are known.
    """
    memory = FakeMemory()
    memory.ensure(STACK, 0x1000)
    for at, word in words.items():
        memory.write(STACK + at, struct.pack("<Q", word))

    def registers_of(index: int) -> Mapping[str, int] | None:
        value = (registers or {}).get(index, 0)
        return {"rbx": value, "rip": CODE} if value is not None else None

    found = sorted(frames_near(memory, NATIVE, registers_of, is_code, LOCK))
    assert found[-1] == 3
    return found[:-1]


@pytest.mark.parametrize(("word", "is_near"), [
    (LOCK, True), (LOCK - 0x40, True), (LOCK - FAR + 1, True), (LOCK + FAR - 1, True),
    (LOCK - 2 * FAR, False), (LOCK + 2 * FAR, False), (LOCK + (1 << 48), False), (LOCK << 8, False), (0, False)])
def test_word_is_near_up_to_64_kib(word: int, is_near: bool) -> None:
    assert near({0x600: word}) == ([1] if is_near else [])
    assert near({}, {0: word}) == ([0] if is_near else [])


@pytest.mark.parametrize(("at", "frames"), [
    (0, [0]), (0x3F8, [0]), (0x400, [0, 1]), (0x4F8, [0, 1]), (0x500, [1]), (0x800, [1, 2]), (0x8F8, [1, 2])])
def test_arguments_belong_to_two_frames(at: int, frames: list[int]) -> None:
    assert near({at: LOCK}) == frames


def test_address_of_code_is_not_near() -> None:
    assert near({0x600: CODE + 0x40}, {0: CODE + 0x80}) == []


def test_bytes_that_are_not_a_word_are_not_near() -> None:
    assert near({0x604: LOCK}) == []


def test_each_place_counts() -> None:
    assert near({0x100: LOCK + 8, 0x900: LOCK}, {1: LOCK - 0x100}) == [0, 1, 2]


@pytest.mark.parametrize(("words", "registers", "frames"), [
    # a frame has saved the register of its callers
    ({0x100: LOCK}, {1: LOCK, 2: LOCK}, [0, 1, 2]), ({0x100: LOCK}, {2: LOCK}, [0, 2]), ({0x100: LOCK}, {}, [0]),
    # what a frame has not saved is that of the frame inside of it
    ({}, {0: LOCK, 1: LOCK}, [0, 1]), ({}, {0: None, 1: None}, [0, 1]), ({}, {0: None, 1: LOCK, 2: LOCK}, [0, 1, 2]),
    # without a word on the stack it cannot come from anywhere
    ({}, {1: LOCK}, []), ({0x600: LOCK}, {1: LOCK}, [1])])
def test_registers_come_from_inner_frames(words: dict[int, int], registers: dict[int, int | None],
                                          frames: list[int]) -> None:
    assert near(words, registers) == frames


def test_frames_on_several_stacks_are_all_possible() -> None:
    native = [NATIVE[2], NATIVE[0], NATIVE[1], NATIVE[3]]
    assert [*frames_near(FakeMemory(), native, lambda index: {}, is_code, LOCK)] == [0, 1, 2, 3]


def test_frames_beyond_the_part_that_is_searched_are_possible() -> None:
    memory = FakeMemory()
    memory.ensure(STACK, 0x1000)
    native = [*NATIVE, *((0x2000 + index, STACK + (1 << 20) + index) for index in range(2))]
    assert [*frames_near(memory, native, lambda index: {}, is_code, LOCK)] == [4, 5]


def test_thread_without_frames_has_none() -> None:
    assert not frames_near(FakeMemory(), [], lambda index: {}, is_code, LOCK)
