"""Loops in the bytecode of a function: whether an instruction is repeated, and until which condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdbext.cpython.code.bytecode import Bytecode
from gdbext.worklist import walk

#: Takes the next item of a ``for`` loop, or leaves the loop.
_TAKES_NEXT = "FOR_ITER"


def find_condition(code: Bytecode, offset: int) -> int | None:
    """The first instruction that can leave the loop around an instruction, as offset in bytes.

    :param offset: of the instruction, in bytes.
    :return: None if the instruction is in no loop, or if only an exception leaves the loop.
    """
    here = code.index(offset)
    loop = _loop(here, code.successors.__getitem__) if here is not None else frozenset[int]()
    exits = [i for i in loop if not loop.issuperset(code.successors[i])]
    return code.instructions[min(exits)].start if exits else None


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
