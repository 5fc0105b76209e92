"""Loops in the bytecode of a function: whether an instruction is repeated until a condition holds."""

from __future__ import annotations

from gdbext.cpython.bytecode import Bytecode
from gdbext.worklist import walk


def find_condition(code: Bytecode, offset: int) -> int | None:
    """The first instruction that can leave the loop around an instruction, as offset in bytes.

    :param offset: of the instruction, in bytes.
    :return: None if the instruction is in no loop, or if only an exception leaves the loop.
    """
    here = code.index(offset)
    if here is None:
        return None
    after = set(walk(code.successors[here], code.successors.__getitem__))
    if here not in after:
        return None
    before: dict[int, list[int]] = {}
    for i in after:
        for following in code.successors[i]:
            before.setdefault(following, []).append(i)
    loop = set(walk((here,), lambda i: before.get(i, ())))
    exits = [i for i in loop if not loop.issuperset(code.successors[i])]
    return code.instructions[min(exits)].start if exits else None
