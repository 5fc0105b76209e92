"""`UnwinderBase`: what the unwinders of all processors have in common: each program counter's rule is computed once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from gdbext.arch.frame_descriptions import FrameDescriptions
from gdbext.arch.frame_rules import CannotUnwind, State, row_at
from gdbext.errors import CorruptStructure, GdbextError, MemoryUnreadable
from gdbext.inferior.protocol import Memory, Module

#: How to get from a frame to its caller on one processor.
Rule = TypeVar("Rule")


class UnwinderBase(ABC, Generic[Rule]):
    """Unwinds the threads of one stop of one target.

    :param modules: all loaded files.
    :param return_column: the number of the register that stands for the return address.
    :param at_entry: the register and the offset of the CFA where a function begins.
    """

    #: A row of the call frame table.
    STATE: ClassVar[type[State]]

    def __init__(self, memory: Memory, modules: Sequence[Module], return_column: int,
                 at_entry: tuple[int, int]) -> None:
        self._memory = memory
        self._descriptions = FrameDescriptions(memory, modules, return_column)
        #: See `FrameDescriptions`.
        self.function_range = self._descriptions.function_range
        self.exception_table = self._descriptions.exception_table
        self._at_entry = at_entry
        self._rules: dict[int, Rule | None] = {}
        self._entries: dict[int, bool] = {}

    def rule(self, pc: int) -> Rule:
        """The rule at a program counter (of a caller: its return address less one).

        :raises CannotUnwind: no frame description covers it, or an unusual one.
        """
        if pc not in self._rules:
            try:
                self._rules[pc] = self._find_rule(pc)
            except (CannotUnwind, CorruptStructure, MemoryUnreadable):
                self._rules[pc] = None
        rule = self._rules[pc]
        if rule is None:
            raise CannotUnwind(f"no usable frame description for {pc:#x}")
        return rule

    @abstractmethod
    def _find_rule(self, pc: int) -> Rule:
        """The same, computed."""

    def unwind(self, registers: Mapping[str, int], limit: int) -> list[tuple[int, int]]:
        """(program counter, stack pointer) of the frames, innermost first.

        :param registers: of the innermost frame.
        :param limit: most frames to walk; a longer stack is cut there.
        :raises CannotUnwind: the caller of a frame is not known here; the debugger's unwinder may know it.
        :raises MemoryUnreadable: the stack is not readable.
        """
        frames, error = self.walk(registers, limit)
        if error is not None:
            raise error
        return frames

    @abstractmethod
    def walk(self, registers: Mapping[str, int], limit: int) -> tuple[list[tuple[int, int]], GdbextError | None]:
        """The frames as `unwind` has them, and why the walk ended before the outermost frame, None if it did not."""

    def starts_function(self, address: int) -> bool:
        """Whether a call can lead to an address: a frame description begins there, with an empty frame.

        A part of a function that is entered by a jump usually begins with a frame of the function.
        """
        if address not in self._entries:
            try:
                found = self._descriptions.find(address)
                state = row_at(found, 0, self.STATE)
                self._entries[address] = (found.start == address
                                          and (state.cfa_register, state.cfa_offset) == self._at_entry)
            except (CannotUnwind, CorruptStructure, MemoryUnreadable):
                self._entries[address] = False
        return self._entries[address]
