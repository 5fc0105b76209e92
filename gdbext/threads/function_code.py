"""The instructions of a function, decoded from what the debugger disassembles."""

from __future__ import annotations

from gdbext.arch.protocol import Instruction
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Target
from gdbext.threads.code import Code

#: How far into a function is looked, in bytes.
MAX_FUNCTION = 1 << 15


def code_up_to(target: Target, code: Code, pc: int) -> list[Instruction]:
    """The function's code up to the instruction at a program counter, that one last; empty if unreadable."""
    try:
        target.memory.read(pc, 1)
    except GdbextError:  # the debugger may disassemble what it only takes for zeros
        return []
    found = code.function_range(pc + 1)  # of a caller it would be the byte before that counts
    start = found[0] if found is not None and 0 <= pc - found[0] <= MAX_FUNCTION else pc
    end = min(found[1], start + 2 * MAX_FUNCTION) if found is not None and start != pc else pc + 1
    instructions = [code.cpu.parse(*each) for each in target.disassemble(start, end)]
    at = next((i for i, each in enumerate(instructions) if each.address == pc), None)
    if at is None:  # data in between, or code that is not what it seems
        return [code.cpu.parse(*each) for each in target.disassemble(pc, pc + 1)][:1]
    return instructions[:at + 1]
