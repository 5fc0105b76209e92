"""What the analysis must know about the code of a program, and the memory from which it reads that code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gdbext.arch.protocol import Architecture, ExceptionTable
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.budget import BudgetSpent
from gdbext.inferior.protocol import Memory, Module, Symbol


class Program(Protocol):
    """The loaded files of a target; `threads.code.Code` is one."""

    @property
    def cpu(self) -> Architecture:
        """The processor."""

    @property
    def modules(self) -> Sequence[Module]:
        """The loaded files."""

    @property
    def space(self) -> AddressSpace:
        """The mappings of the target."""

    def module(self, address: int, /) -> Module | None:
        """The file at an address."""

    def symbol(self, address: int, index: int = 0, /) -> Symbol:
        """The symbol at an address; with an index above 0, that of the call before a return address."""

    def function_range(self, pc: int, /) -> tuple[int, int] | None:
        """Start and end of the function of a program counter (of a caller: less one), without the use of symbols."""

    def starts_function(self, address: int, /) -> bool:
        """Whether a call can lead to an address; False for a part of a function that the compiler placed elsewhere."""

    def exception_table(self, pc: int, /) -> ExceptionTable | None:
        """The exception table of the function of a program counter; None if it has none."""


class CodeMemory:
    """The memory from which code is analysed. What it reads where the program may write can be compared later."""

    def __init__(self, memory: Memory, program: Program) -> None:
        self._memory = memory
        self._program = program
        # None where memory was not readable
        self._noted: dict[tuple[int, int], bytes | None] = {}
        self._is_complete = True

    def read(self, address: int, size: int) -> bytes:
        """Read exactly `size` bytes.

        :raises MemoryUnreadable: not all of them can be read.
        """
        try:
            data = self._memory.read(address, size)
        except MemoryUnreadable as error:
            self._is_complete &= not isinstance(error, BudgetSpent)
            self._noted[address, size] = None
            raise
        if _may_change(self._program.space, address):
            self._noted[address, size] = data
        return data

    def continue_with(self, memory: Memory, program: Program) -> bool:
        """Read another memory from now on; False if its contents differ from those read so far."""
        if not self._is_complete or any(_read(memory, *where) != data for where, data in self._noted.items()):
            return False
        self._memory, self._program = memory, program
        return True


def _may_change(space: AddressSpace, address: int) -> bool:
    region = space.find(address)
    return region is None or region.path is None or region.allows("w") is not False


def _read(memory: Memory, address: int, size: int) -> bytes | None:
    try:
        return memory.read(address, size)
    except MemoryUnreadable:
        return None
