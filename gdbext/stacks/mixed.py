"""Stacks in all languages, as a person reads them: boundaries named, with the variables of frames where asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from gdbext.cpython.frames import PyStack, RawFrame
from gdbext.cpython.runtime import ThreadState
from gdbext.cpython.values import Limits, ValueReader, locals_of
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.model import Frame, Local, MixedStack, Part, PyFrame
from gdbext.runtimes.names import public_name
from gdbext.stacks.boundaries import Facts, is_import, present, read_imports, split
from gdbext.stacks.merge import Item, eval_frames, merge
from gdbext.stacks.recursion import DEEP, fold
from gdbext.threads.code import Code
from gdbext.threads.python_side import Python, PythonThread
from gdbext.threads.threads import SeenThread

#: Gives the variables of a native frame, the innermost being 0.
NativeVariables = Callable[[int], Sequence[Local]]


class _Known(NamedTuple):
    mixed: MixedStack
    items: Sequence[Item]
    python: Sequence[PyFrame]  # kept, since they are identified by their address in our memory


class MixedStacks:
    """The stacks of a target's threads; boundaries are looked for once in those that are the same.

    :param is_interpreter: whether a program counter is in the interpreter.
    """

    def __init__(self, code: Code, is_interpreter: Callable[[int], bool]) -> None:
        self._code = code
        self._is_interpreter = is_interpreter
        self._known: dict[object, _Known] = {}
        # by the address of the frames in our memory, with these to keep them there
        self._facts: dict[int, tuple[Sequence[Frame], Facts]] = {}

    def stack(self, seen: SeenThread, thread: PythonThread, python: PyStack) -> MixedStack:
        """Merge a thread's stacks and name what leads from one language to the other.

        :param python: its Python frames.
        """
        mixed, _ = self._items(seen, thread, python)
        return replace(mixed, parts=_folded(mixed.parts))

    def parts_again(self, before: Sequence[Frame], after: Sequence[Frame]) -> tuple[Part, ...]:
        """The parts of a stack whose native frames have other names now.

        :param before: the frames of a stack that `stack` has returned.
        :param after: the same frames with their new names.
        """
        _, facts = self._facts[id(before)]
        return _folded(tuple(present(after, facts)))

    def with_variables(self, seen: SeenThread, thread: PythonThread, python: PyStack, memory: Memory,
                       native_variables: NativeVariables, limits: Limits, shown: Collection[int] = ()) -> MixedStack:
        """The same with the variables of all frames.

        :param native_variables: returns the variables of native frames.
        :param shown: native frames, by index, that are to be seen although they are the interpreter's.
        """
        mixed, kept = self._items(seen, thread, python, shown)
        places = {index: frame for index, frame in enumerate(mixed.frames) if isinstance(frame, PyFrame)}
        found: dict[int, tuple[Local, ...]] = dict(zip(places, python_variables(
            memory, thread.tstates, list(places.values()), limits)))
        for index, item in enumerate(kept):
            if isinstance(item, int):
                found[index] = tuple(native_variables(item))
        return replace(mixed, variables=found)

    def _items(self, seen: SeenThread, thread: PythonThread, python: PyStack,
               shown: Collection[int] = ()) -> tuple[MixedStack, Sequence[Item]]:
        code, own = self._code, thread.python
        native = seen.whole(code)
        at, unmerged = eval_frames(native, python, lambda pc: own is not None and own.is_eval(code, pc),
                                   code.is_cut(native))
        # all that follows from a stack follows from these; Python frames that are equal are the same objects
        key = (tuple([pc for pc, _ in native]), tuple(map(id, python.frames)), None if at is None else tuple(at),
               tuple([count for count, _ in python.calls]), frozenset(shown))
        known = self._known.get(key)
        if known is not None:
            return known.mixed, known.items
        # no Python frame stands for the interpreter's frames of a thread whose thread state is gone
        hidden = self._is_interpreter if thread.tstates else _nothing_hidden
        kept, left_out = split(merge(len(native), python, at), native, hidden, shown)
        frames = tuple([code.frame(native[item][0], item) if isinstance(item, int) else item for item in kept])
        # where frames are not in their places, nothing is known of what calls them
        facts = Facts({} if unmerged else left_out, lambda pc: public_name(code.symbol(pc, 1).function or "") or None,
                      lambda: _imports(thread))
        mixed = MixedStack(frames, tuple(present(frames, facts)), unmerged)
        self._facts[id(frames)] = frames, facts
        # modules of different names may be imported by the same frames, and stacks fail to merge in different ways
        if unmerged is None and not any(map(is_import, frames)):
            self._known[key] = _Known(mixed, kept, python.frames)
        return mixed, kept


def _nothing_hidden(_: int) -> bool:
    return False


def _folded(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return fold(parts)[0] if len(parts) >= DEEP else parts


@if_unreadable(())
def _imports(thread: PythonThread) -> Sequence[str | None]:
    if len(thread.tstates) != 1:
        return ()
    ((python, tstate),) = thread.tstates
    return read_imports(python.frames, python.objects, python.frames.raw(tstate.address))


def python_variables(memory: Memory, tstates: Sequence[tuple[Python, ThreadState]], frames: Sequence[PyFrame],
                     limits: Limits) -> list[tuple[Local, ...]]:
    """The variables of a thread's Python frames; empty where these are not found in memory again.

    :param tstates: of the thread; the order of frames of several interpreters is not known.
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


@if_unreadable(())
def _variables(python: Python, reader: ValueReader, raw: RawFrame, limits: Limits) -> tuple[Local, ...]:
    return tuple(Local(*each) for each in locals_of(python.frames, reader, raw, limits))
