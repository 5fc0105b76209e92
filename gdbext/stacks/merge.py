"""Merging a thread's Python and native frames into one stack.

Each call of CPython's eval loop is one native frame and runs one Python frame (3.10 and earlier) or several (3.11
and later). Which native frame it is, is known without symbols: since 3.11 the thread state links an object that
lies in that very frame; before, the frames are those of the one function ``_PyEval_EvalFrameDefault``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

from gdbext.cpython.frames import PyStack
from gdbext.model import PyFrame
from gdbext.model.reasons import Reason, because

#: A Python frame, or the index of a native frame.
Item = Union[PyFrame, int]


def merge(native: Sequence[tuple[int, int]], python: PyStack, is_eval: Callable[[int], bool],
          is_interpreter: Callable[[int], bool]) -> tuple[list[Item], Reason | None]:
    """One stack of both, innermost first, the interpreter's own native frames left out.

    :param native: (program counter, stack pointer) of each native frame, innermost first.
    :param is_eval: whether a program counter lies in the eval loop; asked only where `python` has no anchors.
    :param is_interpreter: whether a program counter lies in the interpreter.
    :return: the frames, and why they could not be interleaved (None where they were): then all Python frames come
        first.
    """
    at, reason = eval_frames(native, python, is_eval)
    if at is None:
        kept: list[Item] = list(python.frames)
        kept += [i for i, (pc, _) in enumerate(native) if not is_interpreter(pc)]
        return kept, reason
    items: list[Item] = []
    frames = iter(python.frames)
    count_at = dict(zip(at, (count for count, _ in python.calls)))
    for i, (pc, _) in enumerate(native):
        if i in count_at:
            items.extend(frame for _, frame in zip(range(count_at[i]), frames))
        elif not is_interpreter(pc):
            items.append(i)
    return items, None


def eval_frames(native: Sequence[tuple[int, int]], python: PyStack,
                 is_eval: Callable[[int], bool]) -> tuple[list[int] | None, Reason | None]:
    """Index of the native frame of each call of the eval loop, or None and the reason; see `merge`."""
    anchors = [anchor for _, anchor in python.calls]
    if not anchors:
        return [], None
    if None in anchors:
        if any(anchors):
            return None, because("python-stack-cut")
        found = [i for i, (pc, _) in enumerate(native) if is_eval(pc)]
        if len(found) != len(anchors):
            return None, because("frame-counts-differ", python=len(anchors), native=len(found))
        return found, None
    found = []
    i = 0
    for anchor in anchors:
        # the object lies between the stack pointer of the frame and that of its caller
        while i < len(native) and not (native[i][1] <= (anchor or 0) and
                                       (i + 1 == len(native) or (anchor or 0) < native[i + 1][1])):
            i += 1
        if i >= len(native):
            return None, because("eval-in-no-frame")
        if found and found[-1] == i:
            return None, because("evals-in-one-frame")
        found.append(i)
    return found, None
