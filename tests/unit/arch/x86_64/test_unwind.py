from __future__ import annotations

import platform
import random
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gdbext.arch.frame_rules import CannotUnwind
from gdbext.arch.protocol import ExceptionTable
from gdbext.arch.x86_64.frame_rules import Rule
from gdbext.arch.x86_64.unwind import Unwinder
from gdbext.errors import GdbextError, MemoryUnreadable
from gdbext.inferior.protocol import Module, Section
from tests.support.fake_eh_frame import INITIAL, cie, record
from tests.support.fake_memory import FakeMemory, NoiseMemory

TEXT, HEADER, FRAMES, STACK = 0x7F00_0000_1000, 0x7F00_0010_0000, 0x7F00_0010_1000, 0x7FFF_0000_0000

NO_ROWS = b""


def advance(delta: int) -> bytes:
    return bytes([0x40 | delta])


def def_cfa_offset(offset: int) -> bytes:
    return bytes([0x0E, offset])


# push %rbp; mov %rsp,%rbp
FRAME_POINTER = advance(1) + def_cfa_offset(16) + b"\x86\x02" + advance(3) + b"\x0d\x06"


class Frames:
    """A module whose functions have the given frame programs, 0x100 bytes each, one after another."""

    def __init__(self, *programs: bytes, common: bytes | None = None, lsda: bool = False) -> None:
        frames = record(cie() if common is None else common, FRAMES)
        table = []
        for i, program in enumerate(programs):
            at = FRAMES + len(frames)
            start = TEXT + 0x100 * i
            body = struct.pack("<Iii", at + 4 - FRAMES, start - (at + 8), 0x100)
            body += (b"\x04\0\0\0\0" if lsda else b"\0") + program
            table.append((start - HEADER, at - HEADER))
            frames += record(body, at)
        head = b"\x01\x1b\x03\x3b" + struct.pack("<iI", FRAMES - (HEADER + 4), len(table))
        head += b"".join(struct.pack("<ii", *entry) for entry in table)
        self.memory = FakeMemory({HEADER: head, FRAMES: frames})
        self.module = Module("/lib/libx.so", (Section(".text", TEXT, TEXT + 0x100 * len(programs)),
                                              Section(".eh_frame_hdr", HEADER, HEADER + len(head)),
                                              Section(".eh_frame", FRAMES, FRAMES + len(frames))))
        self.unwinder = Unwinder(self.memory, [self.module])

    def rule(self, offset: int = 0, function: int = 0) -> Rule:
        return self.unwinder.rule(TEXT + 0x100 * function + offset)


def test_rule_of_a_function_with_a_frame_pointer() -> None:
    frames = Frames(FRAME_POINTER)
    assert frames.rule(0) == Rule(False, 8, -8, None)
    assert frames.rule(1) == frames.rule(3) == Rule(False, 16, -8, -16)
    assert frames.rule(4) == frames.rule(0xFF) == Rule(True, 16, -8, -16)


@pytest.mark.parametrize(("program", "offset", "expected"), [
    (b"\x02\x80" + def_cfa_offset(24), 0x7F, Rule(False, 8, -8, None)),
    (b"\x02\x80" + def_cfa_offset(24), 0x80, Rule(False, 24, -8, None)),
    (b"\x03\x90\x00" + def_cfa_offset(24), 0x90, Rule(False, 24, -8, None)),
    (b"\x04\x90\x00\x00\x00" + def_cfa_offset(24), 0x90, Rule(False, 24, -8, None)),
    (b"\x0e\x80\x20", 0, Rule(False, 0x1000, -8, None)),
    (b"\x0c\x06\x10", 0, Rule(True, 16, -8, None)),
    (b"\x12\x06\x7e", 0, Rule(True, 16, -8, None)),
    (b"\x13\x7d", 0, Rule(False, 24, -8, None)),
    (b"\x05\x06\x04", 0, Rule(False, 8, -8, -32)),
    (b"\x11\x06\x04", 0, Rule(False, 8, -8, -32)),
    (b"\x11\x06\x7c", 0, Rule(False, 8, -8, 32)),
    (b"\x86\x02\x08\x06", 0, Rule(False, 8, -8, None)),
    (b"\x86\x02\x07\x06", 0, Rule(False, 8, -8, None)),
    (b"\x86\x02\xc6", 0, Rule(False, 8, -8, None)),
    (b"\x86\x02\x06\x06", 0, Rule(False, 8, -8, None)),
    (b"\x07\x10", 0, Rule(False, 8, -8, None, outermost=True)),
    (b"\x2e\x10\x00\x83\x03\x8c\x04", 0, Rule(False, 8, -8, None, saved=(("rbx", -24), ("r12", -32)))),
    (b"\x83\x03\xc3\x07\x0c", 0, Rule(False, 8, -8, None, lost=("r12",))),
    (b"\x0a\x0e\x40\x86\x02\x0b", 0, Rule(False, 8, -8, None)),
    (b"\x0a\x0e\x20\x0a\x0e\x40\x0b\x86\x02", 0, Rule(False, 32, -8, -16)),
    (b"\x10\x03\x02\x77\x00\x16\x0c\x01\x77", 0, Rule(False, 8, -8, None, lost=("rbx", "r12"))),
    (b"\x14\x03\x02\x15\x0c\x7e\x09\x0d\x00", 0, Rule(False, 8, -8, None, lost=("rbx", "r12", "r13"))),
], ids=["advance_loc1, before", "advance_loc1", "advance_loc2", "advance_loc4", "large offset", "def_cfa", "def_cfa_sf",
        "def_cfa_offset_sf", "offset_extended", "offset_extended_sf", "offset_extended_sf, above", "same_value",
        "undefined rbp", "restore", "restore_extended", "undefined return address", "other registers", "lost register",
        "remember and restore", "nested remember", "expressions of other registers", "values of other registers"])
def test_call_frame_instructions(program: bytes, offset: int, expected: Rule) -> None:
    assert Frames(program).rule(offset) == expected


#: As gcc describes a function that aligns its stack: the CFA is stored below rbp, and registers are saved near it.
ALIGNED = b"\x10\x06\x02\x76\x00" + b"\x0f\x03\x76\x58\x06" + b"\x10\x0c\x02\x76\x78"


def test_rule_of_a_function_that_aligns_its_stack() -> None:
    assert Frames(ALIGNED).rule() == Rule(True, 8, -8, None, cfa_at=-40, near_rbp=(("rbp", 0), ("r12", -8)))


def test_frames_beyond_a_function_that_aligns_its_stack() -> None:
    frames = Frames(ALIGNED, FRAME_POINTER)
    rbp, cfa = STACK + 0x100, STACK + 0x158
    caller, outer_rbp, outer = TEXT + 0x180, STACK + 0x200, TEXT + 0x1F0
    frames.memory.map(STACK, bytes(0x300))
    for at, word in ((rbp - 40, cfa), (rbp, outer_rbp), (rbp - 8, 12), (cfa - 8, caller), (outer_rbp, 0),
                     (outer_rbp + 8, outer)):
        frames.memory.write(at, word.to_bytes(8, "little"))
    registers = {"rip": TEXT + 0x10, "rsp": STACK + 0x40, "rbp": rbp, "r12": 5}
    assert frames.unwinder.walk(registers, 3)[0] == [
        (TEXT + 0x10, STACK + 0x40), (caller, cfa), (outer, outer_rbp + 16)]
    assert frames.unwinder.frame_registers(registers, 1) == {"rip": caller, "rsp": cfa, "rbp": outer_rbp, "r12": 12}
    # a damaged rbp leads nowhere
    for wrong in (0, 8, STACK - 0x1000, 1 << 63, (1 << 64) - 1):
        assert frames.unwinder.walk({**registers, "rbp": wrong}, 3)[0] == [(TEXT + 0x10, STACK + 0x40)]
        assert frames.unwinder.frame_registers({**registers, "rbp": wrong}, 1) == {}


@pytest.mark.parametrize(("code", "after", "rax", "callers"), [
    (b"\x0f\x05", 2, 0, 0),  # a new thread
    (b"\x0f\x05", 2, (1 << 64) - 38, 2),  # in the system call
    (b"\x0f\x05", 2, None, None), (b"\x0f\x34", 2, 0, None), (b"\x90\x0f\x05", 3, 0, None), (b"\x0f\x05", 1, 0, None)])
def test_frames_after_the_system_call_of_clone(code: bytes, after: int, rax: int | None, callers: int | None) -> None:
    frames = Frames(NO_ROWS, FRAME_POINTER, NO_ROWS)
    frames.module = replace(frames.module, sections=(
        Section(".text", TEXT, TEXT + 0x400), *frames.module.sections[1:]))
    unwinder = Unwinder(frames.memory, [frames.module])
    end = TEXT + 0x300
    frames.memory.map(end, code.ljust(0x100, b"\x90"))
    frames.memory.map(STACK, struct.pack("<4Q", TEXT + 0x110, 0, TEXT + 0x10, 0))
    registers = {"rip": end + after, "rsp": STACK, "rbp": STACK + 8, **({"rax": rax} if rax is not None else {})}
    found, error = unwinder.walk(registers, 3)
    assert (error is None) is (callers is not None)
    assert [pc for pc, _ in found] == [end + after, TEXT + 0x110, TEXT + 0x10][:1 + (callers or 0)]
    caller = unwinder.frame_registers(registers, 1)
    assert caller.get("rip") == (TEXT + 0x110 if callers else None)


#: As glibc describes vfork: the return address is popped into rdi.
VFORK = advance(1) + def_cfa_offset(0) + b"\x09\x10\x05" + advance(8) + def_cfa_offset(8)


@pytest.mark.parametrize(("offset", "size"), [(1, 0), (8, 0), (9, 8)])
def test_return_address_in_a_register(offset: int, size: int) -> None:
    frames = Frames(VFORK, FRAME_POINTER)
    assert frames.rule(offset) == Rule(False, size, 0, None, returns_in="rdi")
    frames.memory.map(STACK, struct.pack("<4Q", 0, 0, 0, 0))
    registers = {"rip": TEXT + offset, "rsp": STACK, "rbp": 5, "rbx": 3, "rdi": TEXT + 0x101}
    assert frames.unwinder.walk(registers, 2)[0] == [(TEXT + offset, STACK), (TEXT + 0x101, STACK + size)]
    assert frames.unwinder.frame_registers(registers, 1) == {
        "rip": TEXT + 0x101, "rsp": STACK + size, "rbp": 5, "rbx": 3}
    del registers["rdi"]
    assert frames.unwinder.walk(registers, 2)[0] == [(TEXT + offset, STACK)]
    assert frames.unwinder.frame_registers(registers, 1) == {}
    # only the innermost frame has all its registers
    frames.memory.map(STACK, struct.pack("<4Q", 0, TEXT + offset + 1, 0, 0))
    inner = {"rip": TEXT + 0x101, "rsp": STACK, "rbp": 5, "rdi": TEXT + 0x101}
    assert frames.unwinder.walk(inner, 3)[0] == [(TEXT + 0x101, STACK), (TEXT + offset + 1, STACK + 16)]
    assert frames.unwinder.frame_registers(inner, 2) == {}


#: As GNU ld describes a table of entries: a jump of 6 bytes, a push of 5 and a jump of 5.
LINKAGE = b"\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"


@pytest.mark.parametrize(("offset", "cfa"), [(0, 8), (6, 8), (10, 8), (11, 16), (15, 16), (16, 8), (0x5B, 16)])
def test_rule_of_a_linkage_table(offset: int, cfa: int) -> None:
    assert Frames(LINKAGE).rule(offset) == Rule(False, cfa, -8, None)
    assert Frames(LINKAGE.replace(b"\x3b", b"\x30")).rule(offset) == Rule(False, 16, -8, None)
    # of a register, and other expressions
    assert Frames(b"\x10\x03" + LINKAGE[1:]).rule(offset) == Rule(False, 8, -8, None, lost=("rbx",))
    for program in (LINKAGE[:-1] + b"\x1c", LINKAGE.replace(b"\x77\x08", b"\x76\x08"),
                    LINKAGE.replace(b"\x3b", b"\x50"), b"\x0f\x0c" + LINKAGE[2:] + b"\x96"):
        with pytest.raises(CannotUnwind):
            Frames(program).rule(offset)


@pytest.mark.parametrize("program", [
    b"\x10\x06\x02\x76\x00\x0f\x02\x76\x58", b"\x10\x06\x02\x76\x08\x0f\x03\x76\x58\x06",
    b"\x0f\x03\x76\x58\x06", b"\x10\x06\x02\x76\x00\x0f\x04\x76\x58\x06\x06", b"\x0f\x01\x06",
    b"\x0f\x00", b"\x16\x06\x02\x76\x00\x0f\x03\x76\x58\x06",
    b"\x0f\x02\x77\x08", b"\x0d\x03", b"\x10\x06\x02\x77\x00", b"\x09\x06\x03", b"\x09\x10\x03", b"\x08\x10",
    b"\x10\x10\x02\x77\x00", b"\x01" + bytes(8), b"\x2d", b"\x3f", b"\x0b", b"\x0a" * 100, b"\x0e", b"\x0f\x7f\x77",
    b"\x0e" + b"\xff" * 12 + b"\x01",
], ids=["CFA near rbp that is not stored", "rbp saved elsewhere", "rbp not saved", "CFA stored twice",
        "CFA stored nowhere", "empty expression", "value of rbp", "CFA expression", "CFA of rbx", "rbp expression",
        "rbp in a register", "return address in a register", "return address unchanged",
        "return address expression", "set_loc", "window_save", "unknown", "restore without", "remember without end",
        "ends early", "expression ends early", "endless LEB128"])
def test_call_frame_instructions_of_unusual_frames_raise(program: bytes) -> None:
    # padded at the start, so that the record ends with the program and padding completes no operand
    program = bytes(-(len(program) + 17) % 8) + program
    with pytest.raises(CannotUnwind):
        Frames(program).rule()


@pytest.mark.parametrize(("common", "lsda"), [
    (cie(b"zPLR", b"\x07\x9b\0\0\0\0\x1b\x1b"), True), (cie(b"zPLR", b"\x09\x03\0\0\0\0\x1b\x1b\0\0"), True),
    (b"\0\0\0\0\x03zR\0\x01\x78\x10\x01\x1b" + INITIAL, False),
], ids=["personality", "more data than is understood", "version 3"])
def test_augmentations_are_skipped(common: bytes, lsda: bool) -> None:
    assert Frames(FRAME_POINTER, common=common, lsda=lsda).rule(4) == Rule(True, 16, -8, -16)


@pytest.mark.parametrize("common", [
    cie(b"zRS"), cie(return_column=17), cie(b"eh", b""), cie(data=b"\x01\x50"),
    cie(data=b"\x01\x2b"), b"\0\0\0\0\x04zR\0\x01\x78\x10\x01\x1b" + INITIAL, b"\x01\0\0\0" + cie()[4:],
    b"\0\0\0\0\x01" + b"z" * 39, b"\0\0\0\0\x01",
], ids=["signal frame", "return column", "old augmentation", "aligned pointers", "text-relative", "version 4", "no CIE",
        "augmentation without end", "short"])
def test_unusual_common_information_raises(common: bytes) -> None:
    with pytest.raises(CannotUnwind):
        Frames(FRAME_POINTER, common=common).rule()


def test_functions_have_separate_rules() -> None:
    frames = Frames(FRAME_POINTER, NO_ROWS, def_cfa_offset(64), b"\x07\x10")
    assert [frames.rule(0x80, i) for i in range(4)] == [
        Rule(True, 16, -8, -16), Rule(False, 8, -8, None), Rule(False, 64, -8, None),
        Rule(False, 8, -8, None, outermost=True)]
    assert [(frames.unwinder.function_range(TEXT + at) or [None])[0] for at in (0, 0xFF, 0x100, 0x2FF)] == [
        TEXT, TEXT, TEXT + 0x100, TEXT + 0x200]


def test_function_starts_with_an_empty_frame() -> None:
    """A part of a function that is placed apart starts with the frame that the function has there."""
    unwinder = Frames(FRAME_POINTER, NO_ROWS, def_cfa_offset(64)).unwinder
    assert [unwinder.starts_function(TEXT + 0x100 * i) for i in range(3)] == [True, True, False]
    assert not unwinder.starts_function(TEXT + 1)
    assert not unwinder.starts_function(HEADER)


@pytest.mark.parametrize("pc", [0, TEXT - 1, TEXT + 0x100, HEADER, 1 << 63])
def test_rule_outside_of_the_module_raises(pc: int) -> None:
    unwinder = Frames(FRAME_POINTER).unwinder
    with pytest.raises(CannotUnwind):
        unwinder.rule(pc)
    assert unwinder.function_range(pc) is None


def test_rule_between_functions_raises() -> None:
    frames = Frames(FRAME_POINTER)
    # the section is larger than the only function with a description
    module = Module("/x", (Section(".text", TEXT, TEXT + 0x1000), *frames.module.sections[1:]))
    with pytest.raises(CannotUnwind):
        Unwinder(frames.memory, [module]).rule(TEXT + 0x100)


def test_rule_is_computed_once() -> None:
    frames = Frames(FRAME_POINTER)
    frames.rule(4)
    frames.memory.reads.clear()
    assert frames.rule(4) == Rule(True, 16, -8, -16)
    assert frames.memory.reads == []
    for _ in range(2):
        with pytest.raises(CannotUnwind):
            frames.unwinder.rule(TEXT + 0x100)


def test_unwind_returns_pc_and_sp_of_each_frame() -> None:
    # leaf (return address on top) <- function with a frame pointer <- function without <- the outermost
    frames = Frames(NO_ROWS, FRAME_POINTER, def_cfa_offset(48), b"\x07\x10")
    memory = frames.memory
    memory.map(STACK, bytes(0x400))
    inner_bp = STACK + 0x40
    memory.u64(STACK + 0x10, TEXT + 0x150)           # leaf returns into the second function
    memory.u64(inner_bp, 0xB0B, TEXT + 0x210)        # which saved rbp, and returns into the third
    third_sp = inner_bp + 16
    memory.u64(third_sp + 40, TEXT + 0x320)          # which returns into the outermost
    found = frames.unwinder.unwind({"rip": TEXT + 0x20, "rsp": STACK + 0x10, "rbp": inner_bp}, 100)
    assert found == [(TEXT + 0x20, STACK + 0x10), (TEXT + 0x150, STACK + 0x18), (TEXT + 0x210, third_sp),
                     (TEXT + 0x320, third_sp + 48)]
    assert frames.unwinder.unwind({"rip": TEXT + 0x20, "rsp": STACK + 0x10, "rbp": inner_bp}, 2) == found[:2]


def test_unwind_uses_the_rule_of_the_call() -> None:
    # the call, of a function that does not return, is the last instruction: another function follows
    frames = Frames(def_cfa_offset(32), def_cfa_offset(64))
    frames.memory.map(STACK, bytes(0x100))
    frames.memory.u64(STACK + 24, TEXT + 0x100)
    frames.memory.u64(STACK + 56, TEXT + 0x40)
    assert frames.unwinder.unwind({"rip": TEXT + 0x20, "rsp": STACK, "rbp": 0}, 10) == [
        (TEXT + 0x20, STACK), (TEXT + 0x100, STACK + 32), (TEXT + 0x40, STACK + 64)]


def test_unwind_ends_at_a_null_return_address() -> None:
    frames = Frames(NO_ROWS)
    frames.memory.map(STACK, bytes(16))
    assert frames.unwinder.unwind({"rip": TEXT, "rsp": STACK, "rbp": 0}, 10) == [(TEXT, STACK)]


def test_unwind_of_a_frame_that_does_not_grow_raises() -> None:
    frames = Frames(FRAME_POINTER)
    frames.memory.map(STACK - 0x100, bytes(0x200))
    for bp in (0, STACK - 16, STACK - 0x100, STACK + (1 << 40)):
        with pytest.raises(CannotUnwind):
            frames.unwinder.unwind({"rip": TEXT + 0x50, "rsp": STACK, "rbp": bp}, 10)


@pytest.mark.parametrize("program", [
    b"\x11\x10\x80\x40",   # the return address far above the frame: offset_extended_sf RA, -8192 (times -8)
    b"\x05\x10\x80\x08",   # and far below it: offset_extended RA, 1024
    b"\x11\x06\x80\x40",   # rbp likewise
    b"\x05\x06\x80\x08",
])
def test_unwind_with_registers_saved_outside_the_frame_raises(program: bytes) -> None:
    """An address outside of the frame raises CannotUnwind, never IndexError: the debugger may unwind the frame."""
    frames = Frames(program)
    frames.memory.map(STACK, struct.pack("<Q", TEXT + 8) * 100)
    with pytest.raises(CannotUnwind):
        frames.unwinder.unwind({"rip": TEXT, "rsp": STACK, "rbp": 0}, 10)


def test_rbp_that_was_popped_already_is_read_below_the_stack_pointer() -> None:
    """Compilers do not say in the epilogue that a register has its value again."""
    frames = Frames(b"\x86\x02\x0e\x08", FRAME_POINTER, NO_ROWS)  # offset rbp, 2 (times -8); def_cfa_offset 8
    frames.memory.map(STACK - 0x100, bytes(0x300))
    bp = STACK + 0x40
    frames.memory.u64(STACK - 8, bp, TEXT + 0x150)
    frames.memory.u64(bp, 0xB0B, TEXT + 0x210)
    assert frames.unwinder.unwind({"rip": TEXT + 0x20, "rsp": STACK, "rbp": bp}, 3) == [
        (TEXT + 0x20, STACK), (TEXT + 0x150, STACK + 8), (TEXT + 0x210, bp + 16)]


def test_unwind_of_an_unreadable_stack_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        Frames(NO_ROWS).unwinder.unwind({"rip": TEXT, "rsp": STACK, "rbp": 0}, 10)


def test_unwind_stops_at_the_limit() -> None:
    frames = Frames(NO_ROWS)
    frames.memory.map(STACK, struct.pack("<Q", TEXT + 8) * 5000)
    assert len(frames.unwinder.unwind({"rip": TEXT, "rsp": STACK, "rbp": 0}, 1000)) == 1000


def test_exception_table_of_a_function() -> None:
    """The personality is stored at an address, the table relative to the place of its pointer; null means no table."""
    personality = struct.pack("<Bi", 0x9B, 0)
    frames = Frames(FRAME_POINTER, FRAME_POINTER, common=cie(b"zPLR", b"\x07" + personality + b"\x1b\x1b"), lsda=True)
    at = frames.memory.read(FRAMES, 64).index(personality) + 1
    frames.memory.write(FRAMES + at, struct.pack("<i", 0x800 - at))
    frames.memory.ensure(FRAMES + 0x800, 8)
    frames.memory.u64(FRAMES + 0x800, 0x1234)
    assert frames.unwinder.function_range(TEXT + 0x180) == (TEXT + 0x100, TEXT + 0x200)
    assert Unwinder(frames.memory, [frames.module]).exception_table(TEXT) is None
    first = FRAMES + 4 + int.from_bytes(frames.memory.read(FRAMES, 4), "little")
    frames.memory.write(first + 17, struct.pack("<i", 0x40))
    unwinder = Unwinder(frames.memory, [frames.module])
    assert unwinder.exception_table(TEXT + 5) == ExceptionTable(first + 17 + 0x40, 0x1234, TEXT)
    assert unwinder.exception_table(TEXT + 0x105) is None
    assert unwinder.exception_table(0x10) is None


@pytest.mark.parametrize("change", [
    (0, b"\x02"), (1, b"\x50"), (2, b"\xff"), (3, b"\x1b"), (8, b"\xff\xff\xff\xff"), (8, b"\0\0\0\0"),
    (16, b"\xff\xff\xff\x7f"),
], ids=["version", "encoding", "count encoding", "table encoding", "too many", "none", "points nowhere"])
def test_unusual_header_raises(change: tuple[int, bytes]) -> None:
    frames = Frames(FRAME_POINTER)
    frames.memory.write(HEADER + change[0], change[1])
    with pytest.raises(CannotUnwind):
        Unwinder(frames.memory, [frames.module]).rule(TEXT)


def test_truncated_data_raises_only_errors_of_gdbext() -> None:
    """Data cut off at any place raises GdbextError or nothing."""
    whole = Frames(FRAME_POINTER, def_cfa_offset(24), lsda=False)
    head = whole.module.sections[1]
    data = whole.memory.read(FRAMES, whole.module.sections[2].end - FRAMES)
    for size in range(len(data)):
        memory = FakeMemory({HEADER: whole.memory.read(HEADER, head.end - HEADER), FRAMES: data[:size]})
        unwinder = Unwinder(memory, [whole.module])
        with pytest.raises(GdbextError):
            unwinder.rule(TEXT + 0x104)
    for size in range(head.end - HEADER):
        memory = FakeMemory({HEADER: whole.memory.read(HEADER, size), FRAMES: data})
        with pytest.raises(GdbextError):
            Unwinder(memory, [whole.module]).rule(TEXT + 0x104)


def test_changed_bytes_raise_only_errors_of_gdbext() -> None:
    whole = Frames(FRAME_POINTER, def_cfa_offset(24), b"\x0a\x0e\x40\x0b", lsda=True)
    chooser = random.Random(7)
    start = time.process_time()
    rules = 0
    for _ in range(3000):
        memory = FakeMemory({section.start: whole.memory.read(section.start, section.end - section.start)
                             for section in whole.module.sections[1:]})
        for _ in range(chooser.randrange(1, 4)):
            section = whole.module.sections[chooser.randrange(1, 3)]
            memory.write(chooser.randrange(section.start, section.end), bytes([chooser.randrange(256)]))
        unwinder = Unwinder(memory, [whole.module])
        try:
            rules += isinstance(unwinder.rule(TEXT + chooser.randrange(0x300)), Rule)
        except GdbextError:
            pass
    assert 0 < rules < 3000
    assert time.process_time() - start < 30


@pytest.mark.parametrize("seed", range(30))
def test_random_memory_raises_only_errors_of_gdbext(seed: int) -> None:
    memory = NoiseMemory(seed)
    at = seed * 0x340
    module = Module("/x", (Section(".text", 0, 1 << 40), Section(".eh_frame_hdr", at, at + 0x10000)))
    unwinder = Unwinder(memory, [module])
    start = time.process_time()
    for i in range(50):
        try:
            unwinder.unwind({"rip": 0x1000 + 977 * i, "rsp": 0x4000 + 8 * i, "rbp": 0x5000}, 1000)
        except GdbextError:
            continue
    assert time.process_time() - start < 10


# -- a real file, against readelf -----------------------------------------------------------------------------

SOURCE = r"""
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int leaf(int a) { return a * 3; }
__attribute__((noinline)) int saves(int a, int b, int c) {
    int x = leaf(a) + rand(), y = leaf(b) + rand(), z = leaf(c) + rand();
    for (int i = 0; i < x; i++) { y += rand() % (z | 1); z ^= y; if (y > 1000) return z; }
    return x + y + z;
}
__attribute__((noinline)) int dynamic(int n) {
    char *p = alloca(n * 16 + 1);
    memset(p, rand(), n * 16 + 1);
    return saves(p[0], p[n], n);
}
__attribute__((noinline)) int aligned(int n) {
    char buffer[256] __attribute__((aligned(64)));
    snprintf(buffer, sizeof buffer, "%d %s", n, getenv("HOME") ? "y" : "n");
    return dynamic((int) strlen(buffer)) + buffer[3];
}
__attribute__((noinline)) int many(int a, int b, int c, int d, int e, int f, int g, int h, int i) {
    if (a > 10) return many(b, c, d, e, f, g, h, i, a - 1) + aligned(i);
    return a + b + c + d + e + f + g + h + i;
}
__attribute__((noreturn, noinline)) void ends(int n) { if (n) abort(); exit(many(n, 1, 2, 3, 4, 5, 6, 7, 8)); }
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < argc; i++) sum += many(i, 1, 2, 3, 4, 5, 6, 7, (int) strlen(argv[i]));
    if (sum > 100) ends(sum);
    return sum;
}
"""
BUILDS = ("-O2", "-O0", "-O2 -fno-omit-frame-pointer", "-Os -fomit-frame-pointer -no-pie")


@dataclass(frozen=True)
class Row:
    """The rows of [start, end) by readelf: the CFA, and the places of registers and the return address."""

    start: int
    end: int
    cfa: str
    rbp: str
    ra: str
    signal: bool
    others: tuple[tuple[str, str], ...] = ()


def readelf(*arguments: str) -> str:
    # it fails if there is no separate debug file, which is not needed
    return subprocess.run(["readelf", *arguments], capture_output=True, text=True, check=False, timeout=120).stdout


def rows_of(path: Path) -> Iterator[Row]:
    signals: dict[str, bool] = {}
    signal, end = False, 0
    columns: list[str] = []
    pending: tuple[int, dict[str, str]] | None = None

    def made(until: int) -> Row:
        assert pending is not None
        start, values = pending
        others = [(name, values[name]) for name in ("rbx", "r12", "r13", "r14", "r15") if name in values]
        return Row(start, until, values["CFA"], values.get("rbp", "u"), values.get("ra", "u"), signal, tuple(others))

    for line in [*readelf("-W", "--debug-dump=frames-interp", str(path)).splitlines(), ""]:
        head = re.match(r"([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) (CIE|FDE)(.*)", line)
        words = re.sub(r"\b(r\d+) \(\w+\)", r"\1", line).split()
        if pending and (head or not words):
            yield made(end)
            pending = None
        if head:
            columns = []
            if head[3] == "CIE":
                signals[head[1]] = "S" in head[4].split('"')[1]
            else:
                found = re.search(r"cie=([0-9a-f]+) pc=[0-9a-f]+\.\.([0-9a-f]+)", head[4])
                assert found is not None
                signal, end = signals[found[1]], int(found[2], 16)
        elif words[:1] == ["LOC"]:
            columns = words[1:]
        elif words and columns and re.fullmatch(r"[0-9a-f]{16}", words[0]) and end:
            if pending:
                yield made(int(words[0], 16))
            pending = int(words[0], 16), dict(zip(columns, words[1:]))


def loaded(path: Path, bias: int) -> tuple[FakeMemory, Module]:
    memory, sections = FakeMemory(), []
    data = path.read_bytes()
    pattern = r"\s*\[\s*\d+\]\s+(\S+)\s+(?:PROGBITS|X86_64_UNWIND)" + 3 * r"\s+([0-9a-f]+)"
    for line in readelf("-S", "-W", str(path)).splitlines():
        found = re.match(pattern, line)
        if found and int(found[2], 16):
            at, offset, size = (int(found[i], 16) for i in (2, 3, 4))
            memory.map(bias + at, data[offset:offset + size])
            sections.append(Section(found[1], bias + at, bias + at + size))
    return memory, Module(str(path), tuple(sections))


def compare(path: Path, every_pc: bool) -> tuple[int, int]:
    """The number of program counters compared, and of those left to the debugger."""
    bias = 0x5555_0000_0000
    memory, module = loaded(path, bias)
    unwinder = Unwinder(memory, [module])
    code = [section for section in module.sections if section.name.startswith((".text", ".plt", ".init", ".fini"))
            and not section.name.endswith("_array")]
    compared = left = 0
    for row in rows_of(path):
        if not any(section.start <= bias + row.start < section.end for section in code) or row.start == row.end:
            continue
        place = re.fullmatch(r"(rsp|rbp)\+(\d+)", row.cfa)
        for pc in range(row.start, row.end) if every_pc else (row.start, row.end - 1):
            compared += 1
            unusual = (row.signal or place is None or not re.fullmatch(r"u|s|c[+-]\d+", row.rbp)
                       or not re.fullmatch(r"c[+-]\d+", row.ra))
            if row.cfa == "exp" and any(each.name == ".plt" and each.start <= bias + pc < each.end for each in code):
                # the jump of 6 bytes and the push of 5, or the linker's own entry
                assert unwinder.rule(bias + pc) == Rule(False, 16 if pc % 16 >= 11 else 8, -8, None), hex(pc)
            elif row.ra == "r5" and place is not None and place[1] == "rsp":  # vfork
                assert unwinder.rule(bias + pc) == Rule(False, int(place[2]), 0, None, returns_in="rdi"), hex(pc)
            elif row.ra == "u" and not row.signal:
                assert unwinder.rule(bias + pc).outermost, (hex(pc), row)
            elif unusual:
                left += 1
                with pytest.raises(CannotUnwind):
                    unwinder.rule(bias + pc)
            else:
                assert place is not None
                rbp = int(row.rbp[1:]) if row.rbp.startswith("c") else None
                # "u" is also what is unchanged
                saved = tuple([(name, int(where[1:])) for name, where in row.others if where.startswith("c")])
                lost = tuple([name for name, where in row.others if not re.fullmatch(r"u|s|c[+-]\d+", where)])
                expected = Rule(place[1] == "rbp", int(place[2]), int(row.ra[1:]), rbp, saved=saved, lost=lost)
                assert unwinder.rule(bias + pc) == expected, (hex(pc), row)
    return compared, left


def need_tools(*tools: str) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the unwinder is for x86-64")
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")


@pytest.mark.parametrize("options", BUILDS)
def test_rules_of_a_compiled_program_agree_with_readelf(options: str, tmp_path: Path) -> None:
    need_tools("gcc", "readelf")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(SOURCE, encoding="utf-8")
    subprocess.run(["gcc", *options.split(), "-o", str(program), str(source)], check=True, timeout=120)
    compared, left = compare(program, every_pc=True)
    assert compared > 500
    assert left == 0


@pytest.mark.slow
def test_rules_of_the_c_library_agree_with_readelf() -> None:
    need_tools("readelf")
    library = next((path for path in (Path("/lib/x86_64-linux-gnu/libc.so.6"), Path("/lib64/libc.so.6"))
                    if path.exists()), None)
    if library is None:
        pytest.skip("no libc.so.6 where distributions keep it")
    compared, left = compare(library, every_pc=False)
    assert compared > 10_000
    assert left < compared // 10


def test_registers_of_callers_are_those_that_inner_frames_have_saved() -> None:
    # the innermost function saves rbx and r12, its caller rbp; the outermost cannot restore r13
    frames = Frames(def_cfa_offset(32) + b"\x83\x03\x8c\x04", FRAME_POINTER, b"\x07\x0d")
    stack = struct.pack("<9Q", 12, 3, 5, TEXT + 0x110, 66, TEXT + 0x210, 0, 0, 0)
    frames.memory.map(STACK, stack)
    known = {"rip": TEXT, "rsp": STACK, "rbp": STACK + 0x20, "r13": 13}
    # r12 at CFA - 32, rbx at CFA - 24
    first = frames.unwinder.frame_registers(known, 1)
    assert first == {"rip": TEXT + 0x110, "rsp": STACK + 32, "rbp": STACK + 32, "rbx": 3, "r12": 12, "r13": 13}
    second = frames.unwinder.frame_registers(known, 2)
    assert second == {"rip": TEXT + 0x210, "rsp": STACK + 48, "rbp": 66, "rbx": 3, "r12": 12, "r13": 13}
    assert frames.unwinder.frame_registers(known, 0) == known
    # without rbp the caller is found, but not that one's caller
    del known["rbp"]
    assert "rbp" not in frames.unwinder.frame_registers(known, 1)
    assert frames.unwinder.frame_registers(known, 2) == {}
