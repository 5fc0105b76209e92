"""One thread's stack in all languages, as a person reads it: boundaries named, with the variables of its frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdbext.analysis.boundaries import Facts, present, read_imports, split
from gdbext.analysis.code import Code
from gdbext.analysis.python_side import Python
from gdbext.analysis.stacks import merge
from gdbext.analysis.threads import SeenThread
from gdbext.cpython.frames import PyStack, RawFrame
from gdbext.cpython.runtime import ThreadState
from gdbext.cpython.values import Limits, ValueReader, locals_of
from gdbext.errors import GdbextError
from gdbext.model import Local, MixedStack, PyFrame
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
    facts = Facts(left_out, lambda pc: code.frame(pc, 1).function, lambda: _imports(seen))
    found: dict[int, Sequence[Local]] = {}
    if variables is not None:
        places = {index: frame for index, frame in enumerate(frames) if isinstance(frame, PyFrame)}
        found.update(zip(places, python_variables(memory, seen.tstates, list(places.values()), limits)))
        for index, item in enumerate(kept):
            if isinstance(item, int):
                found[index] = variables(item)
    return MixedStack(frames, tuple(present(frames, facts)), unmerged, found)


def _imports(seen: SeenThread) -> Sequence[str | None]:
    if len(seen.tstates) != 1:
        return ()
    ((python, tstate),) = seen.tstates
    try:
        return read_imports(python.frames, python.objects, python.frames.raw(tstate.address))
    except GdbextError:
        return ()


def python_variables(memory: Memory, tstates: Sequence[tuple[Python, ThreadState]], frames: Sequence[PyFrame],
                     limits: Limits) -> list[tuple[Local, ...]]:
    """The variables of a thread's Python frames; empty where these are not found in memory again.

    :param tstates: of the thread; of several interpreters nothing tells the order of their frames.
    :param frames: innermost first.
    """
    if len(tstates) != 1:
        return []
    ((python, tstate),) = tstates
    try:
        raws = python.frames.raw(tstate.address)
    except GdbextError:
        return []
    if [raw.frame for raw in raws] != list(frames):
        return []
    reader = ValueReader(memory, python.runtime.layouts, python.objects)
    return [_variables(python, reader, raw, limits) for raw in raws]


def _variables(python: Python, reader: ValueReader, raw: RawFrame, limits: Limits) -> tuple[Local, ...]:
    try:
        return tuple(Local(*each) for each in locals_of(python.frames, reader, raw, limits))
    except GdbextError:
        return ()
