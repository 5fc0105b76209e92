"""Decodes the bytecode of one function: its instructions and the ways between them, with exception handlers.

Sources: CPython 3.8 - 3.10 Lib/dis.py, Python/ceval.c (block stack); CPython 3.11 - 3.15 Lib/dis.py,
InternalDocs/exception_handling.md (exception table).
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from gdbext.cpython.code.with_blocks import iter_protected
from gdbext.errors import CorruptStructure
from gdbext.layout.opcodes import Opcodes
from gdbext.record import record

#: Largest number of instructions of a function that is analysed.
MAX_INSTRUCTIONS = 20_000
_SETUPS = ("SETUP_FINALLY", "SETUP_WITH", "SETUP_ASYNC_WITH")
_ENDS = frozenset(("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT"))
_RAISES = frozenset(("RAISE_VARARGS", "RERAISE", "END_FINALLY"))
_ALWAYS_JUMPS = frozenset(("JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"))
_MAX_BLOCKS = 20  # CO_MAXBLOCKS
# its argument serves sys.monitoring only, since 3.14
_NO_JUMP = "END_ASYNC_FOR"


class Instruction(NamedTuple):
    """An instruction by the name of its base: `start` is the offset of its first prefix in bytes."""

    start: int
    name: str
    argument: int
    end: int


@record
class Bytecode:
    """The instructions of a function, which are known by their indices.

    `successors` are the instructions that may follow one that does not raise, `handlers` the one that handles its
    exceptions or None.
    """

    instructions: Sequence[Instruction]
    successors: Sequence[tuple[int, ...]]
    handlers: Sequence[int | None]

    def index(self, offset: int) -> int | None:
        """The index of the instruction to which the byte at an offset belongs; None if it is outside the code."""
        if not self.instructions or not 0 <= offset < self.instructions[-1].end:
            return None
        return bisect.bisect_right(self._starts, offset) - 1

    @cached_property
    def _starts(self) -> list[int]:
        return [each.start for each in self.instructions]

    def may_raise(self, i: int) -> bool:
        """Whether an instruction exists to raise: only perhaps in the case of ``END_FINALLY`` of 3.8."""
        return self.instructions[i].name in _RAISES


def decode(code: bytes, opcodes: Opcodes) -> list[Instruction]:
    """The instructions in the memory of a code object.

    :param code: the instructions with their caches, as the interpreter may have replaced them.
    :raises CorruptStructure: an instruction is unknown, or hides the one that it stands for.
    """
    found: list[Instruction] = []
    at = start = argument = 0
    while at + 1 < len(code):
        name = opcodes.names.get(code[at])
        if name is None or len(found) >= MAX_INSTRUCTIONS:
            raise CorruptStructure(at, f"the bytecode instruction {code[at]}")
        argument = (argument << 8 | code[at + 1]) & 0xFFFFFFFF
        at += 2
        if name == "EXTENDED_ARG":
            continue
        at += 2 * opcodes.caches.get(name, 0)
        found.append(Instruction(start, name, argument, at))
        start, argument = at, 0
    return found


def _targets(instructions: Sequence[Instruction], opcodes: Opcodes) -> list[int | None]:
    """By index: the index of the instruction to which each one jumps, or that is its handler; None for none."""
    unit = 2 if opcodes.version >= (3, 10) else 1
    by_start = {each.start: i for i, each in enumerate(instructions)}
    found: list[int | None] = []
    for each in instructions:
        how = opcodes.jumps.get(each.name)
        if how is None or each.name == _NO_JUMP:
            found.append(None)
            continue
        distance = each.argument * unit
        to = distance if how == "absolute" else each.end + distance if how == "forward" else each.end - distance
        if to not in by_start:
            raise CorruptStructure(each.start, "a jump into an instruction")
        found.append(by_start[to])
    return found


def with_table(code: bytes, table: bytes, opcodes: Opcodes) -> Bytecode:
    """The bytecode of a function of CPython 3.11 or later.

    :param table: the contents of ``co_exceptiontable``.
    :raises CorruptStructure: the code or the table is damaged, or cannot be analysed.
    """
    instructions = decode(code, opcodes)
    targets = _targets(instructions, opcodes)
    by_start = {each.start: i for i, each in enumerate(instructions)}
    starts = [each.start for each in instructions]
    handlers: list[int | None] = [None] * len(instructions)
    for protected in iter_protected(table):
        handler = by_start.get(protected.handler)
        if handler is None:
            raise CorruptStructure(protected.handler, "an exception handler inside an instruction")
        first = bisect.bisect_left(starts, protected.start)
        for i in range(first, len(instructions)):
            if instructions[i].start >= protected.end:
                break
            handlers[i] = handler
    successors = [_successors(i, instructions, targets[i]) for i in range(len(instructions))]
    return Bytecode(instructions, successors, handlers)


def with_blocks(code: bytes, opcodes: Opcodes) -> Bytecode:
    """The bytecode of a function of CPython 3.8 to 3.10, whose handlers are on the frame's block stack.

    The stack at each instruction follows from the instructions before it.

    :raises CorruptStructure: the code is damaged, or cannot be analysed.
    """
    instructions = decode(code, opcodes)
    targets = _targets(instructions, opcodes)
    # 3.8: the code of a `finally` is called, and returns to each of its callers
    calls = [i for i, each in enumerate(instructions) if each.name == "CALL_FINALLY"]
    successors: list[tuple[int, ...]] = []
    for i, each in enumerate(instructions):
        target = targets[i]
        if each.name in _SETUPS:
            following: tuple[int, ...] = (i + 1,)
        elif each.name == "CALL_FINALLY":
            following = (target,) if target is not None else ()
        elif each.name == "END_FINALLY":
            following = (i + 1, *(call + 1 for call in calls if (targets[call] or 0) <= i))
        else:
            following = _successors(i, instructions, target)
        successors.append(tuple([index for index in following if index < len(instructions)]))
    handlers: list[int | None] = [None] * len(instructions)
    stacks: dict[int, tuple[int, ...]] = {}
    open_ways: list[tuple[int, tuple[int, ...]]] = [(0, ())] if instructions else []
    while open_ways:
        i, stack = open_ways.pop()
        if i in stacks:
            if stacks[i] != stack:
                raise CorruptStructure(instructions[i].start, "different block stacks at one instruction")
            continue
        stacks[i] = stack
        handlers[i] = stack[-1] if stack else None
        name, target = instructions[i].name, targets[i]
        if name in _SETUPS and target is not None:
            open_ways.append((target, stack))
            stack = (*stack, target)
        elif name == "POP_BLOCK":
            stack = stack[:-1]
        if len(stack) > _MAX_BLOCKS:
            raise CorruptStructure(instructions[i].start, "too many blocks")
        if name == "END_FINALLY":
            # each caller goes on with the blocks that it had
            open_ways += [(index, stack) for index in successors[i][:1] if index == i + 1]
        else:
            open_ways += [(index, stack) for index in successors[i]]
        if name == "CALL_FINALLY" and i + 1 < len(instructions):
            open_ways.append((i + 1, stack))
    return Bytecode(instructions, successors, handlers)


def _successors(i: int, instructions: Sequence[Instruction], target: int | None) -> tuple[int, ...]:
    name = instructions[i].name
    following = () if name in _ENDS or name in _ALWAYS_JUMPS or i + 1 == len(instructions) else (i + 1,)
    return following if target is None or target in following else (*following, target)
