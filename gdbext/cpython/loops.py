"""Loops in the bytecode of a function: whether an instruction is repeated until a condition holds."""

from __future__ import annotations

from gdbext.cpython.bytecode import Bytecode, with_blocks, with_table
from gdbext.cpython.frames import FrameReader
from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError
from gdbext.layout.opcodes import opcodes_of
from gdbext.layout.table import Layouts
from gdbext.remembered import remembered
from gdbext.worklist import walk


class Functions:
    """The bytecode of functions of one runtime; each is decoded once."""

    def __init__(self, layouts: Layouts, objects: Objects, frames: FrameReader) -> None:
        self._objects = objects
        self._frames = frames
        self.has_table = "_PyInterpreterFrame" in layouts
        self.opcodes = opcodes_of(*layouts.version_tuple[:2])

    @remembered
    def bytecode(self, code: int) -> Bytecode | None:
        """The bytecode of a function (``PyCodeObject *``); None if it cannot be read, or its version is not known."""
        if self.opcodes is None:
            return None
        try:
            data = self._frames.instructions(code)
            if not self.has_table:
                return with_blocks(data, self.opcodes)
            table = self._objects.bytes(self._objects.read_member("PyCodeObject", code, "co_exceptiontable"))
            return with_table(data, table, self.opcodes)
        except (GdbextError, IndexError):
            return None


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
