"""The bytecode of functions in a target's memory."""

from __future__ import annotations

from gdbext.cpython.code.bytecode import Bytecode, with_blocks, with_table
from gdbext.cpython.code.lock_calls import Names
from gdbext.cpython.code.loops import begins_turn, is_repeated
from gdbext.cpython.frames import FrameReader
from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError
from gdbext.layout.opcodes import opcodes_of
from gdbext.layout.table import Layouts
from gdbext.remembered import remembered


class Functions:
    """The bytecode of functions of one runtime; each is decoded once."""

    def __init__(self, layouts: Layouts, objects: Objects, frames: FrameReader) -> None:
        self._objects = objects
        self._frames = frames
        self.has_table = "_PyInterpreterFrame" in layouts
        self.opcodes = opcodes_of(*layouts.version_tuple[:2])

    @remembered
    def repeats(self, code: int, offset: int) -> bool | None:
        """Whether an instruction of a function may be repeated without end; None if the function cannot be read.

        :param offset: of the instruction, in bytes; see `is_repeated`.
        """
        bytecode = self.bytecode(code)
        return is_repeated(bytecode, offset) if bytecode is not None else None

    @remembered
    def begins_turn(self, code: int, offset: int) -> bool:
        """Whether a function has called nothing before an instruction; see `loops.begins_turn`."""
        bytecode = self.bytecode(code)
        return bytecode is not None and begins_turn(bytecode, offset)

    def names(self, code: int) -> Names:
        """The names that the instructions of a function (``PyCodeObject *``) refer to.

        :raises GdbextError: they cannot be read.
        """
        variables, cells = self._frames.variable_names(code)
        return Names(tuple(self._frames.names_of(code)), variables, 0 if self.has_table else min(cells, default=0))

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
