"""The frames of one thread: their registers, and the values of the analysis that these show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gdbext.arch.protocol import Architecture
from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.proofs.flow.state import CONSTANT, State, Value

#: Most bytes of a stack that are searched for an address.
MAX_STACK_SCAN = 1 << 20
#: Most bytes of a stack above the stack pointer of its outermost frame.
OUTERMOST = 256


class Stack(Protocol):
    """The native frames of a thread by their indices, the innermost is 0."""

    #: The thread's number, and (program counter, stack pointer) of each frame.
    number: int
    native: Sequence[tuple[int, int]]

    def registers(self, index: int) -> Mapping[str, int]:
        """The known registers of a frame; none if the debugger unwinds the stack differently."""

    def known_registers(self, index: int) -> Mapping[str, int] | None:
        """The registers of a frame, without a stop of the thread and without the debugger; None if some are unknown."""


def place_of(stack: Stack, index: int) -> int:
    """The program counter of the innermost frame, or the address of the last byte of a caller's call."""
    return stack.native[index][0] - (index > 0)


def entered(stack: Stack, index: int, cpu: Architecture, memory: Memory) -> int | None:
    """The function that the caller of a frame has called, which may have jumped to the frame's; None if unknown."""
    return cpu.called(memory, stack.native[index + 1][0]) if index + 1 < len(stack.native) else None


def recompute(memory: Memory, cpu: Architecture, lock: Value, state: State,
              registers: Mapping[str, int]) -> int | None:
    """The address that a value of the analysis stands for; None if no register or stack slot contains it."""
    if lock.base == CONSTANT:
        return lock.offset
    found: set[int] = set()
    name = cpu.STACK_POINTER
    top, sp = state.values.get(name), registers.get(name)
    # what the call gets a pointer to it may have changed already
    lowest = min((value.offset for name in cpu.ARGUMENTS for value in [state.values.get(name)]
                  if value is not None and state.is_stack(value)), default=None)
    for place, value in state.values.items():
        if value.base != lock.base:
            continue
        word: int | None = None
        if isinstance(place, str):
            word = registers.get(place)
        elif top is not None and sp is not None and place.base == top.base and (
                lowest is None or place.offset < lowest):
            try:
                word = read_u64(memory, sp + place.offset - top.offset)
            except GdbextError:
                continue
        if word is not None:
            found.add(word - value.offset + lock.offset & (1 << 64) - 1)
    return found.pop() if len(found) == 1 else None
