"""One thread's stack in all languages, as a person reads it: boundaries named, with the variables of its frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdbext.analysis.boundaries import Facts, present, read_imports, split
from gdbext.analysis.code import Code
from gdbext.analysis.python_side import Python
from gdbext.analysis.stacks import merge
from gdbext.analysis.threads import SeenThread
from gdbext.cpython.frames import PyStack, RawFrame
from gdbext.cpython.values import Limits, ValueReader, locals_of
from gdbext.errors import GdbextError
from gdbext.model import Frame, Local, MixedStack, PyFrame
from gdbext.target.protocol import Memory

#: Gives the variables of a native frame, the innermost being 0.
NativeVariables = Callable[[int], Sequence[Local]]


def mixed_stack(memory: Memory, code: Code, seen: SeenThread, python: PyStack, is_interpreter: Callable[[int], bool],
                variables: NativeVariables | None, limits: Limits) -> MixedStack:
    """Merge a thread's stacks and name what leads from one language to the other.

    :param python: its Python frames.
    :param is_interpreter: whether a program counter lies in the interpreter.
    :param variables: where the variables of frames are wanted, tells those of native ones.
    """
    native = seen.native(code)
    own = seen.python
    items, unmerged = merge(native, python, lambda pc: own is not None and own.is_eval(code, pc), lambda pc: False)
    kept, left_out = split(items, native, is_interpreter)
    frames = tuple(code.frame(native[item][0], item) if isinstance(item, int) else item for item in kept)
    raws = _raw_frames(seen)
    facts = Facts(left_out, lambda pc: code.frame(pc, 1).function, lambda: _imports(seen, raws))
    found: dict[int, Sequence[Local]] = {}
    if variables is not None:
        found.update(_python_variables(memory, frames, seen, raws, limits))
        for index, item in enumerate(kept):
            if isinstance(item, int):
                found[index] = variables(item)
    return MixedStack(frames, tuple(present(frames, facts)), unmerged, found)


def _raw_frames(seen: SeenThread) -> list[RawFrame]:
    """A thread's Python frames as they lie in memory; of several interpreters, nothing tells their order."""
    if len(seen.tstates) != 1:
        return []
    ((python, tstate),) = seen.tstates
    try:
        return python.frames.raw(tstate.address)
    except GdbextError:
        return []


def _imports(seen: SeenThread, raws: Sequence[RawFrame]) -> Sequence[str | None]:
    python = seen.python
    return read_imports(python.frames, python.objects, raws) if python is not None else ()


def _python_variables(memory: Memory, frames: Sequence[Frame], seen: SeenThread, raws: Sequence[RawFrame],
                      limits: Limits) -> dict[int, Sequence[Local]]:
    """The variables of the Python frames, where each of them is found in memory again."""
    places = [index for index, frame in enumerate(frames) if isinstance(frame, PyFrame)]
    python = seen.python
    if python is None or [frames[index] for index in places] != [raw.frame for raw in raws]:
        return {}
    reader = ValueReader(memory, python.runtime.layouts, python.objects)
    return {index: variables_of(python, reader, raw, limits) for index, raw in zip(places, raws)}


def variables_of(python: Python, reader: ValueReader, raw: RawFrame, limits: Limits) -> tuple[Local, ...]:
    """The variables of a Python frame; none where they cannot be read."""
    try:
        return tuple(Local(*each) for each in locals_of(python.frames, reader, raw, limits))
    except GdbextError:
        return ()
