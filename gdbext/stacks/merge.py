"""Merging a thread's Python and native frames into one stack.

Each call of CPython's eval loop is one native frame and runs one Python frame (3.10 and earlier) or several (3.11
and later). Which native frame it is, is known without symbols: since 3.11 the thread state links an object that
is in that very frame; before 3.11 the frames are those of the function ``_PyEval_EvalFrameDefault``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Union

from gdbext.cpython.frames import PyStack
from gdbext.model import PyFrame
from gdbext.model.reasons import Reason, because

#: A Python frame, or the index of a native frame.
Item = Union[PyFrame, int]


def merge(native: int, python: PyStack, at: Sequence[int] | None) -> list[Item]:
    """One stack of both, innermost first; the Python frames replace the native frames of the eval loop.

    :param native: the number of native frames.
    :param at: the result of `eval_frames`; with None all Python frames come first.
    """
    if at is None:
        return [*python.frames, *range(native)]
    items: list[Item] = []
    frames = iter(python.frames)
    count_at = dict(zip(at, (count for count, _ in python.calls)))
    for index in range(native):
        if index in count_at:
            items.extend(islice(frames, count_at[index]))
        else:
            items.append(index)
    # calls whose frames are further out than the known ones
    items.extend(frames if native in count_at else ())
    return items


def eval_frames(native: Sequence[tuple[int, int]], python: PyStack, is_eval: Callable[[int], bool],
                is_cut: bool = False) -> tuple[list[int] | None, Reason | None]:
    """The index of the native frame of each call of the eval loop; None and the reason if they cannot be matched.

    A call whose frame is further out than all that are known has the index after the last one.

    :param native: (program counter, stack pointer) of each native frame, innermost first.
    :param is_eval: whether a program counter is in the eval loop; used only if `python` has no anchors.
    :param is_cut: whether the callers of the last native frame, which is not that of a call, are not known.
    """
    anchors = [anchor for _, anchor in python.calls]
    if not anchors:
        return [], None
    if None in anchors:
        if any(anchors):
            return None, because("python-stack-cut")
        found = [i for i, (pc, _) in enumerate(native) if is_eval(pc)]
        if found[:1] == [0] and len(found) == len(anchors) + 1:
            found = found[1:]  # the innermost call has only begun, and has no Python frame yet
        if len(found) != len(anchors):
            return None, because("frame-counts-differ", python=len(anchors), native=len(found))
        return found, None
    found = []
    i = 0
    for anchor in anchors:
        # the object is between the stack pointer of the frame and that of its caller
        while i < len(native) and not (native[i][1] <= (anchor or 0) and
                                       (i + 1 == len(native) or (anchor or 0) < native[i + 1][1])):
            i += 1
        if i >= len(native):
            return None, because("eval-in-no-frame")
        if is_cut and i + 1 == len(native):
            found.append(len(native))
            continue
        if found and found[-1] == i:
            return None, because("native-stack-cut" if i + 1 == len(native) else "evals-in-one-frame")
        found.append(i)
    return found, None
