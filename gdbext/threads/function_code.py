"""The instructions of a function: parsed from the debugger's disassembly, or the calls and jumps in its bytes."""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.arch.protocol import Instruction
from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory, Target
from gdbext.threads.code import Code

#: Most bytes of a function that are disassembled.
MAX_FUNCTION = 1 << 15


def code_up_to(target: Target, code: Code, pc: int) -> list[Instruction]:
    """The function's instructions up to and including that at a program counter; none if the code is unreadable."""
    try:
        target.memory.read(pc, 1)
    except GdbextError:  # the debugger may disassemble unreadable memory as zeros
        return []
    found = code.function_range(pc + 1)  # `function_range` is for callers, which it takes less one
    start = found[0] if found is not None and 0 <= pc - found[0] <= MAX_FUNCTION else pc
    end = min(found[1], start + 2 * MAX_FUNCTION) if found is not None and start != pc else pc + 1
    instructions = [code.cpu.parse(*each) for each in target.disassemble(start, end)]
    at = next((i for i, each in enumerate(instructions) if each.address == pc), None)
    if at is None:  # the function contains data, or jumps into instructions
        return [code.cpu.parse(*each) for each in target.disassemble(pc, pc + 1)][:1]
    return instructions[:at + 1]


def iter_branches(memory: Memory, code: Code, start: int, end: int) -> Iterator[tuple[int, int, int, bool]]:
    """(next address, address, function, whether it is a call) of each call and jump that leads to a module.

    The function is that at the address, or behind the stub or slot there. Instructions are not decoded, so bytes that
    only look like a branch come too.

    :raises MemoryUnreadable: the code is not readable.
    """
    for after, address, is_slot, is_call in code.cpu.iter_branches(memory.read(start, end - start), start):
        if code.module(address) is not None:
            try:
                function = read_u64(memory, address) if is_slot else code.cpu.behind_stub(memory, address)
            except GdbextError:
                continue
            yield after, address, function, is_call
