from __future__ import annotations

import pytest

from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.function_code import MAX_FUNCTION, code_up_to
from tests.support.fake_eh_frame import describe_functions
from tests.support.fake_target import APP_TEXT, FakeTarget

FUNCTION = APP_TEXT + 0x200


def program(size: int = 0x100) -> FakeTarget:
    target = FakeTarget()
    target.ram.ensure(APP_TEXT, 0x1000)
    describe_functions(target, "/app/server", FUNCTION, size=size)
    target.instructions = [(FUNCTION + 4 * i, 4, f"mov $0x{i:x},%eax") for i in range(16)]
    return target


def addresses(target: FakeTarget, pc: int) -> list[int]:
    return [each.address for each in code_up_to(target, read_code(target, Findings()), pc)]


@pytest.mark.parametrize("index", [0, 1, 15])
def test_code_of_a_function_ends_with_the_instruction(index: int) -> None:
    assert addresses(program(), FUNCTION + 4 * index) == [FUNCTION + 4 * i for i in range(index + 1)]


def test_instruction_whose_function_is_not_known() -> None:
    target = program()
    target.instructions.append((APP_TEXT + 0x10, 4, "nop"))
    assert addresses(target, APP_TEXT + 0x10) == [APP_TEXT + 0x10]


def test_instruction_too_far_into_its_function() -> None:
    target = program(size=4 * MAX_FUNCTION)
    pc = FUNCTION + MAX_FUNCTION + 8
    target.ram.ensure(pc, 16)
    target.instructions.append((pc, 4, "nop"))
    assert addresses(target, pc) == [pc]


def test_place_between_two_instructions_is_not_code() -> None:
    assert addresses(program(), FUNCTION + 2) == []


def test_unreadable_code_is_not_disassembled() -> None:
    """GDB disassembles what it cannot read as if it were zeros."""
    target = program()
    target.instructions.append((0x5000, 2, "add %al,(%rax)"))
    assert addresses(target, 0x5000) == []
