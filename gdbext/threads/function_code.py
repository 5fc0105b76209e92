"""The instructions of a function, parsed from the debugger's disassembly."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.arch.protocol import Instruction
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Target
from gdbext.record import record
from gdbext.threads.code import Code

#: Most bytes of a function that are disassembled.
MAX_FUNCTION = 1 << 15


@record
class FunctionCode:
    """The instructions of a function in the order of their addresses; `at` is the index of the one that matters."""

    instructions: Sequence[Instruction]
    at: int

    @property
    def here(self) -> Instruction:
        """The instruction that matters."""
        return self.instructions[self.at]

    @property
    def up_to(self) -> list[Instruction]:
        """The function's instructions up to and including that one."""
        return list(self.instructions[:self.at + 1])


def function_at(target: Target, code: Code, pc: int) -> FunctionCode | None:
    """The function around a program counter; only the instruction there if the function cannot be disassembled.

    :return: None if the code is unreadable.
    """
    try:
        target.memory.read(pc, 1)
    except GdbextError:  # the debugger may disassemble unreadable memory as zeros
        return None
    found = code.function_range(pc)
    start = found[0] if found is not None and 0 <= pc - found[0] <= MAX_FUNCTION else pc
    end = min(found[1], start + 2 * MAX_FUNCTION) if found is not None and start != pc else pc + 1
    instructions = [code.cpu.parse(*each) for each in target.disassemble(start, end)]
    at = next((i for i, each in enumerate(instructions) if each.address == pc), None)
    if at is None:  # the function contains data, or jumps into instructions
        alone = [code.cpu.parse(*each) for each in target.disassemble(pc, pc + 1)][:1]
        return FunctionCode(alone, 0) if alone else None
    return FunctionCode(instructions, at)


def code_up_to(target: Target, code: Code, pc: int) -> list[Instruction]:
    """The function's instructions up to and including that at a program counter; none if the code is unreadable."""
    found = function_at(target, code, pc)
    return found.up_to if found is not None else []
