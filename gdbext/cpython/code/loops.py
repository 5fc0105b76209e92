"""Loops in the bytecode of a function: whether an instruction is repeated, and until which condition holds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from gdbext.cpython.code.bytecode import Bytecode, Instruction
from gdbext.worklist import walk

#: Takes the next item of a ``for`` loop, or leaves the loop.
_TAKES_NEXT = "FOR_ITER"
#: Instructions that end a statement, so they are not part of an expression.
_STATEMENT = ("POP_TOP", "POP_ITER", "STORE_", "DELETE_", "JUMP_BACKWARD", "JUMP_FORWARD", "JUMP_ABSOLUTE", "FOR_ITER")
#: Instructions in which a coroutine or generator awaits another one.
_AWAITS = frozenset(("SEND", "YIELD_FROM"))
#: Largest number of instructions of an expression that are read.
_LONGEST = 64


class Condition(NamedTuple):
    """What ends a loop: the offset of the first instruction that can leave it, in bytes, and the indices of its tests.

    The tests are the instructions of all expressions whose value decides whether the loop is left, in their order. The
    body has the other instructions of the loop.
    """

    start: int
    tests: Sequence[int]
    body: Sequence[int] = ()


def find_condition(code: Bytecode, offset: int) -> Condition | None:
    """What ends the loop around an instruction.

    :param offset: of the instruction, in bytes.
    :return: None if the instruction is in no loop, or if only an exception leaves the loop.
    """
    here = code.index(offset)
    loop = _loop(here, functools.partial(_with_handler, code)) if here is not None else frozenset[int]()
    exits = [i for i in loop if any(_returns(code, each) for each in code.successors[i] if each not in loop)]
    if not exits:
        return None
    entered = {target for i in loop for target in code.successors[i] if target != i + 1 and not _jumps_over(code, i)}
    tests = {i for end in exits for i in _expression(code, end, entered)}
    return Condition(code.instructions[min(exits)].start, sorted(tests), sorted(loop.difference(tests)))


def _with_handler(code: Bytecode, i: int) -> Sequence[int]:
    """The instructions that may follow one, if it raises too."""
    handler = code.handlers[i]
    return code.successors[i] if handler is None else (*code.successors[i], handler)


def _returns(code: Bytecode, i: int) -> bool:
    """Whether the function may return after an instruction, and not only end by an exception."""
    return any(code.instructions[each].name.startswith("RETURN") for each in walk((i,), code.successors.__getitem__))


def _expression(code: Bytecode, end: int, entered: Collection[int]) -> Iterator[int]:
    """The instructions before a jump that compute the value that it tests, last first."""
    for i in range(end - 1, max(end - _LONGEST, -1), -1):
        if _jumps_over(code, i - 1):
            continue
        if i + 1 in entered or code.instructions[i].name.startswith(_STATEMENT):
            return
        yield i


def _jumps_over(code: Bytecode, i: int) -> bool:
    """Whether an instruction and the jump after it are one conditional jump back, as since 3.12."""
    return (i >= 0 and len(code.successors[i]) == 2 and max(code.successors[i]) == i + 2
            and code.instructions[i + 1].name.startswith("JUMP_BACKWARD"))


def is_repeated(code: Bytecode, offset: int) -> bool:
    """Whether an instruction may be repeated without end: in a ``while`` loop, or where a ``for`` takes its next item.

    The body of a ``for`` loop is the work for one item of several.

    :param offset: of the instruction, in bytes.
    """
    here = code.index(offset)
    if here is None or code.instructions[here].name == _TAKES_NEXT:
        return here is not None

    def after_items(i: int) -> Sequence[int]:
        # the instruction behind a loop has a higher index than the body
        following = code.successors[i]
        return following if code.instructions[i].name != _TAKES_NEXT else following and (max(following),)

    around = [i for i in _loop(here, code.successors.__getitem__) if code.instructions[i].name == _TAKES_NEXT]
    return any(_loop(i, after_items) for i in (here, *around))


def begins_turn(code: Bytecode, offset: int) -> bool:
    """Whether nothing is called before an instruction: in this turn of the loop around it, or else in the function.

    :param offset: of the instruction, in bytes.
    """
    here = code.index(offset)
    if here is None:
        return False
    inside = _loop(here, code.successors.__getitem__) or range(len(code.instructions))
    before: dict[int, list[int]] = {}
    for i in inside:
        for following in code.successors[i]:
            # a jump back begins the next turn
            if following > i:
                before.setdefault(following, []).append(i)
    return not any(is_call(code.instructions[i]) for i in walk(before.get(here, ()), lambda i: before.get(i, ())))


def is_call(instruction: Instruction) -> bool:
    """Whether an instruction calls or awaits something."""
    name = instruction.name
    return name.startswith("CALL") and not name.startswith("CALL_INTRINSIC") or name in _AWAITS


def _loop(here: int, following: Callable[[int], Sequence[int]]) -> frozenset[int]:
    """The instructions, by index, of the outermost loop around one; empty if it is in none."""
    after = set(walk(following(here), following))
    if here not in after:
        return frozenset()
    before: dict[int, list[int]] = {}
    for i in after:
        for each in following(i):
            before.setdefault(each, []).append(i)
    return frozenset(walk((here,), lambda i: before.get(i, ())))
