from __future__ import annotations

import struct

import pytest

from gdbext.arch import aarch64 as cpu
from gdbext.arch.aarch64.system_calls import (
    at_stop,
    interrupted_call,
    is_at_system_call,
    sleeping_registers,
    system_call,
)
from gdbext.arch.aarch64.words import words_of
from gdbext.inferior.proc.threads import SystemCall
from tests.support.fake_memory import FakeMemory

CODE = 0xFFFF_8000_1000
#: mov x8, #98; svc #0; cmn w0, #0x1000
MEMORY = FakeMemory({CODE: struct.pack("<3I", 0xD2800C48, 0xD4000001, 0x3140041F)})
SVC = CODE + 4
FUTEX, PPOLL, LOST = 98, 73, (1 << 64) - 1
REGISTERS = {"x0": 0xAAAA_0000_0088, "x1": 0x80, "x2": 2, "x3": 0, "x4": 0, "x5": 7, "x8": FUTEX,
             "sp": 0xFFFF_0000_0000}


def test_thread_that_waits_is_before_the_instruction_with_its_arguments() -> None:
    call = system_call(at_stop(MEMORY, {**REGISTERS, "pc": SVC}))
    assert call is not None
    assert (call.name, call.number, call.blocked) == ("futex", FUTEX, True)
    assert call.arguments == (0xAAAA_0000_0088, 0x80, 2, 0, 0, 7)


def test_call_that_a_signal_ended_has_lost_its_first_argument() -> None:
    call = system_call(at_stop(MEMORY, {**REGISTERS, "pc": SVC + 4, "x0": (1 << 64) - 4, "x8": PPOLL}))
    assert call is not None
    assert (call.name, call.blocked, call.arguments) == ("ppoll", True, (LOST, 0x80, 2, 0, 0, 7))


@pytest.mark.parametrize(("words", "expected"), [
    # glibc 2.36 __lll_lock_wait: mov x0, x19; mov x1, #0x80; mov x2, #2; mov x3, #0; mov x8, #98; svc #0
    ((0xAA1303E0, 0xD2801001, 0xD2800042, 0xD2800003, 0xD2800C48), 0x77),
    ((0xAA1303E0, 0xD2801001, 0xAA0103F3, 0xD2800003, 0xD2800C48), LOST),  # mov x19, x1
    ((0xAA0203E0, 0xD2801001, 0xD2800042, 0xD2800003, 0xD2800C48), LOST),  # mov x0, x2
    ((0xAA1303E0, 0xD2801001, 0x54000041, 0xD2800003, 0xD2800C48), LOST),  # b.ne
    ((0xAA1303E0, 0xD2801001, 0xF9400260, 0xD2800003, 0xD2800C48), LOST),  # ldr x0, [x19]
])
def test_first_argument_of_a_call_that_a_signal_ended_is_known_by_its_copy(words: tuple[int, ...],
                                                                           expected: int) -> None:
    memory = FakeMemory({CODE: struct.pack("<13I", *[0xD503201F] * 7, *words, 0xD4000001)})
    call = system_call(at_stop(memory, {**REGISTERS, "pc": CODE + 13 * 4, "x0": (1 << 64) - 4, "x19": 0x77}))
    assert call is not None
    assert (call.blocked, call.arguments[0]) == (True, expected)


@pytest.mark.parametrize(("value", "result"), [(0, 0), (3, 3), ((1 << 64) - 11, -11)])
def test_call_that_has_returned_has_its_result(value: int, result: int) -> None:
    call = system_call(at_stop(MEMORY, {**REGISTERS, "pc": SVC + 4, "x0": value}))
    assert call is not None
    assert (call.blocked, call.result) == (False, result)


@pytest.mark.parametrize("registers", [
    {**REGISTERS, "pc": CODE}, {**REGISTERS, "pc": SVC, "x8": 999}, {**REGISTERS, "pc": 0x10}, {"pc": SVC, "sp": 0}])
def test_thread_elsewhere_is_in_no_call(registers: dict[str, int]) -> None:
    assert system_call(at_stop(MEMORY, registers)) is None


def test_sleeping_thread_has_the_call_that_proc_shows() -> None:
    found = sleeping_registers(SystemCall(FUTEX, (1, 2, 3, 4, 5, 6), 0xFFFF_0000, SVC + 4))
    call = system_call(found)
    assert call is not None
    assert (call.name, call.blocked, call.arguments) == ("futex", True, (1, 2, 3, 4, 5, 6))
    assert (found["pc"], found["sp"]) == (SVC + 4, 0xFFFF_0000)
    assert system_call(sleeping_registers(SystemCall(-1, (), 0xFFFF_0000, CODE))) is None


def test_interrupted_call_is_known_by_its_number() -> None:
    again = {**REGISTERS, "pc": SVC}
    assert system_call({**again, **interrupted_call(MEMORY, again, (), lambda pc: ())}) is not None
    other = {**REGISTERS, "pc": CODE}
    assert interrupted_call(MEMORY, other, (), lambda pc: ()) == {}


def test_is_at_system_call_before_and_after_it() -> None:
    assert [is_at_system_call(MEMORY, at) for at in (CODE, SVC, SVC + 4, 0x10)] == [False, True, True, False]


def test_core_registers_have_the_thread_pointer_of_the_other_note() -> None:
    state = bytes(112) + struct.pack("<34Q", *range(100, 134)) + bytes(8)
    found = cpu.core_registers(state, struct.pack("<QQ", 0xFFFF_B7F1_D600, 0))
    assert [found[name] for name in ("x0", "x30", "sp", "pc", "tpidr")] == [100, 130, 131, 132, 0xFFFF_B7F1_D600]
    assert "tpidr" not in cpu.core_registers(state)
    assert cpu.core_registers(bytes(336)) == {}  # x86-64


def test_breakpoint_of_the_program_is_at_the_program_counter() -> None:
    memory = FakeMemory({CODE: struct.pack("<2I", 0xD4207D00, 0xD503201F)})  # brk #1000; nop
    assert cpu.is_own_breakpoint(memory, CODE)
    assert not cpu.is_own_breakpoint(memory, CODE + 4)
    assert not cpu.is_own_breakpoint(memory, 0)


@pytest.mark.parametrize(("address", "expected"), [
    (0xFFFF_FFFF_FFFF, True), (0xAAAA_0000_0000, True), (0x0001_0000_0000_0000, False), (0xFFFF_0000_0000_0000, True),
    (0xFFFF_8000_0000_0000 | 0xFF << 48, True), (0xB400_0000_1234_5678, True)])
def test_is_canonical_with_48_bits_and_a_tag(address: int, expected: bool) -> None:
    assert cpu.is_canonical(address) is expected


def test_words_of_code_that_ends_inside_an_instruction() -> None:
    assert [*words_of(b"\x01\0\0\xd4\x02\0")] == [0xD4000001]
