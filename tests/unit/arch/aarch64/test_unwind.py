from __future__ import annotations

import struct

import pytest

from gdbext.arch.aarch64.unwind import Unwinder
from gdbext.arch.frame_rules import CannotUnwind
from gdbext.inferior.protocol import Module, Section
from tests.support.fake_eh_frame import record
from tests.support.fake_memory import FakeMemory, NoiseMemory

TEXT, HEADER, FRAMES, STACK = 0xFFFF_8000_1000, 0xFFFF_8010_0000, 0xFFFF_8010_1000, 0xFFFF_F000_0000
OTHER = 0xFFFF_9000_0000
BL, NOP = struct.pack("<I", 0x94000000), struct.pack("<I", 0xD503201F)
#: CFA = sp; code in units of 4 bytes, data of -8; the return address is in x30.
CIE = b"\0\0\0\0\x01zR\0\x04\x78\x1e\x01\x1b\x0c\x1f\x00"
#: stp x29, x30, [sp, #-32]!; mov x29, sp. DW_CFA_advance_loc 1, def_cfa_offset 32, x29 at -32, x30 at -24.
RECORDED = b"\x41\x0e\x20\x9d\x04\x9e\x03"
#: paciasp before that: DW_CFA_AARCH64_negate_ra_state.
SIGNED = b"\x41\x2d" + RECORDED
#: The outermost frame: DW_CFA_undefined x30.
OUTERMOST = b"\x07\x1e"


class Frames:
    """A module whose functions have the given frame programs, 0x100 bytes each."""

    def __init__(self, *programs: bytes, sections: tuple[Section, ...] = ()) -> None:
        frames, table = record(CIE, FRAMES), []
        for index, program in enumerate(programs):
            at, start = FRAMES + len(frames), TEXT + 0x100 * index
            table.append((start - HEADER, at - HEADER))
            frames += record(struct.pack("<Iii", at + 4 - FRAMES, start - (at + 8), 0x100) + b"\0" + program, at)
        head = b"\x01\x1b\x03\x3b" + struct.pack("<iI", FRAMES - (HEADER + 4), len(table))
        head += b"".join(struct.pack("<ii", *entry) for entry in table)
        self.memory = FakeMemory({HEADER: head, FRAMES: frames, STACK: bytes(0x1000), OTHER: NOP + BL + NOP * 2})
        self.unwinder = Unwinder(self.memory, [Module("/lib/libx.so", (
            Section(".text", TEXT, TEXT + 0x100 * len(programs)), Section(".eh_frame_hdr", HEADER, HEADER + len(head)),
            Section(".eh_frame", FRAMES, FRAMES + len(frames)), *sections))])

    def push(self, at: int, fp: int, lr: int) -> None:
        self.memory.map(at, struct.pack("<2Q", fp, lr))


def function(index: int, offset: int = 0x20) -> int:
    return TEXT + 0x100 * index + offset


def test_leaf_returns_by_its_register_and_callers_by_the_stack() -> None:
    frames = Frames(b"", RECORDED, OUTERMOST)
    frames.push(STACK, STACK + 0x20, function(2))
    found = frames.unwinder.unwind({"pc": function(0), "sp": STACK, "x29": STACK, "x30": function(1)}, 10)
    assert found == [(function(0), STACK), (function(1), STACK), (function(2), STACK + 0x20)]


def test_leaf_without_its_register_is_not_unwound() -> None:
    frames = Frames(b"", RECORDED)
    with pytest.raises(CannotUnwind):
        frames.unwinder.unwind({"pc": function(0), "sp": STACK}, 10)


def test_caller_that_keeps_its_return_address_in_the_register_is_not_unwound() -> None:
    frames = Frames(RECORDED, b"", OUTERMOST)
    frames.push(STACK, STACK + 0x20, function(1))
    found, error = frames.unwinder.walk({"pc": function(0), "sp": STACK, "x29": STACK, "x30": function(2)}, 10)
    assert found == [(function(0), STACK), (function(1), STACK + 0x20)]
    assert isinstance(error, CannotUnwind)


def test_authentication_code_of_a_return_address_is_removed() -> None:
    frames = Frames(SIGNED, OUTERMOST)
    frames.push(STACK, 0, function(1) | 0x2A << 48)
    found = frames.unwinder.unwind({"pc": function(0), "sp": STACK, "x29": STACK}, 10)
    assert found == [(function(0), STACK), (function(1), STACK + 0x20)]


def test_authentication_code_is_known_after_an_early_return() -> None:
    # remember_state; autiasp: negate_ra_state, def_cfa_offset 0; after the return: restore_state
    frames = Frames(SIGNED + b"\x41\x0a\x2d\x0e\x00\xdd\xde\x41\x0b", OUTERMOST)
    frames.push(STACK, 0, function(1) | 0x2A << 48)
    found = frames.unwinder.unwind({"pc": function(0), "sp": STACK, "x29": STACK}, 10)
    assert found == [(function(0), STACK), (function(1), STACK + 0x20)]


def test_upper_bits_of_a_return_address_that_is_not_signed_stay() -> None:
    frames = Frames(RECORDED, OUTERMOST)
    frames.push(STACK, 0, function(1) | 0x2A << 48)
    found, _ = frames.unwinder.walk({"pc": function(0), "sp": STACK, "x29": STACK}, 10)
    assert found[1] == (function(1) | 0x2A << 48, STACK + 0x20)


def test_code_without_description_is_unwound_by_its_frame_record() -> None:
    frames = Frames(RECORDED, RECORDED, OUTERMOST)
    frames.memory.map(TEXT, NOP * 0xC0)
    frames.memory.map(function(0) - 4, BL)
    # the record of the other code leads into a function whose stack pointer only its own record shows
    frames.push(STACK, STACK + 0x80, function(0))
    frames.push(STACK + 0x80, STACK + 0x100, function(1))
    frames.push(STACK + 0xA0, 0, function(2))
    found = frames.unwinder.unwind({"pc": OTHER, "sp": STACK, "x29": STACK}, 10)
    assert found == [(OTHER, STACK), (function(0), STACK + 0x10), (function(1), STACK + 0xA0),
                     (function(2), STACK + 0xC0)]
    assert frames.unwinder.frame_registers({"pc": OTHER, "sp": STACK, "x29": STACK}, 1) == {
        "pc": function(0), "x29": STACK + 0x80}


def test_word_that_is_not_after_a_call_is_not_a_frame_record() -> None:
    frames = Frames(RECORDED)
    frames.memory.map(TEXT, NOP * 0x40)
    frames.push(STACK, STACK + 0x80, function(0))
    with pytest.raises(CannotUnwind):
        frames.unwinder.unwind({"pc": OTHER, "sp": STACK, "x29": STACK}, 10)


def test_stub_returns_by_the_register() -> None:
    frames = Frames(OUTERMOST, sections=(Section(".plt", OTHER, OTHER + 0x10),))
    found = frames.unwinder.unwind({"pc": OTHER, "sp": STACK, "x30": function(0)}, 10)
    assert found == [(OTHER, STACK), (function(0), STACK)]


def test_circular_stack_ends() -> None:
    frames = Frames(b"\x0c\x1d\x10\x9d\x02\x9e\x01")  # CFA = x29 + 16
    frames.push(STACK, STACK, function(0))
    found, error = frames.unwinder.walk({"pc": function(0), "sp": STACK, "x29": STACK}, 1000)
    assert len(found) < 4
    assert isinstance(error, CannotUnwind)


def test_frame_registers_are_those_that_inner_frames_saved() -> None:
    # x19 at -16
    frames = Frames(RECORDED + b"\x93\x02", OUTERMOST)
    frames.push(STACK, 0x77, function(1))
    frames.memory.map(STACK + 16, struct.pack("<Q", 0x99))
    found = frames.unwinder.frame_registers({"pc": function(0), "sp": STACK, "x29": STACK, "x19": 1, "x20": 2}, 1)
    assert found == {"pc": function(1), "sp": STACK + 0x20, "x29": 0x77, "x19": 0x99, "x20": 2}


def test_starts_function() -> None:
    frames = Frames(RECORDED, b"\x0e\x20")
    assert [frames.unwinder.starts_function(at) for at in (TEXT, TEXT + 4, function(1, 0), 0)] == [
        True, False, False, False]


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_survived(seed: int) -> None:
    frames = Frames(RECORDED, SIGNED)
    frames.unwinder = Unwinder(NoiseMemory(seed), [])
    frames.unwinder.walk({"pc": OTHER, "sp": STACK, "x29": STACK, "x30": 5}, 100)
