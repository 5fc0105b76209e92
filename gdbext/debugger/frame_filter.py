"""The frame filter `gdbext-python`: Python frames replace the interpreter's own frames in the output of GDB's `bt`.

GDB's frame numbers do not change: a Python frame has the number of the native frame that runs it, so `frame`, `up` and
`down` work as usual. `bt -no-filters` shows all native frames.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import gdb

from gdbext.debugger.decorators import DapPythonFrame, NativeFrames, PythonFrame, WithPythonFrames, is_for_dap
from gdbext.debugger.settings import Settings, settings
from gdbext.debugger.source import source_files
from gdbext.debugger.symbols import is_inlined
from gdbext.debugger.target import GdbTarget
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import ThreadRef
from gdbext.model import Local, PyFrame
from gdbext.narrate.reasons import explain
from gdbext.render.escape import printable
from gdbext.render.source import SourceFiles
from gdbext.stacks.thread_stacks import MergedStack, ThreadStacks

if TYPE_CHECKING:
    from types import FrameType

    from gdbext.debugger.decorators import Decorator

NAME = "gdbext-python"


class SelectedThread(GdbTarget):
    """A target with only the selected thread. It does not switch threads, since GDB is printing a stack."""

    def __init__(self) -> None:
        super().__init__(may_load=False)

    def threads(self) -> list[ThreadRef]:
        """Return the selected thread."""
        thread = gdb.selected_thread()
        assert thread is not None
        pid, lwp, tid = thread.ptid
        return [ThreadRef(thread.num, lwp or tid or pid, None)]

    def _switch(self, thread: ThreadRef) -> gdb.Frame:
        return gdb.newest_frame()


class FrameFilter:
    """Puts Python frames into the stacks that GDB prints. If that fails, GDB's own frames are shown."""

    def __init__(self) -> None:
        self.name = NAME
        # Before other filters, so that they do not process the frames that this one leaves out
        self.priority = 1000
        self.enabled = True
        # Kept for one inferior until it resumes: GDB calls the filter once for each thread
        self._inferior: int | None = None
        self._target: SelectedThread | None = None
        self._stacks: ThreadStacks | None = None
        self._source: tuple[Settings, SourceFiles] | None = None
        self._fails = False
        self._native = NativeFrames()
        gdb.frame_filters[NAME] = self
        for event in (gdb.events.cont, gdb.events.exited, gdb.events.new_objfile, gdb.events.memory_changed,
                      gdb.events.register_changed, gdb.events.inferior_call, gdb.events.clear_objfiles):
            event.connect(self._forget)

    def _forget(self, event: object) -> None:
        self._target, self._stacks, self._source, self._fails, self._native = None, None, None, False, NativeFrames()

    def filter(self, iterator: Iterator[Decorator]) -> Iterator[Decorator]:
        """Replace frames, innermost first; GDB calls this."""
        try:
            merged = self._merged()
        except (GdbextError, gdb.error, ArithmeticError, LookupError, TypeError, ValueError):
            self._fails = True
            merged = None
        if merged is None or self._source is None:
            return map(self._native.decorate, iterator)
        stack = _Stack(merged, self._source[1], self._native.decorate)
        if merged.unmerged is not None:
            return stack.add_unmerged(iterator, printable(explain(merged.unmerged), 200), _limit(sys._getframe(1)))
        return stack.replace_frames(iterator)

    def _merged(self) -> MergedStack | None:
        inferior = gdb.selected_inferior().num
        if inferior != self._inferior:
            self._forget(None)
            self._inferior = inferior
        if self._fails:
            return None
        thread: gdb.InferiorThread | None = gdb.selected_thread()
        if thread is None or not thread.is_valid():
            return None
        if self._target is None:
            self._target = SelectedThread()
        target = self._target
        if self._stacks is None:
            self._stacks = ThreadStacks(target)
        chosen = settings()
        if self._source is None or self._source[0] != chosen:
            self._source = chosen, source_files(target, chosen)
        (ref,) = target.threads()
        return self._stacks.merged(ref, target.registers(ref))


def _limit(caller: FrameType | None) -> int | None:
    """Return how many frames the user asked for, as by ``bt 5`` and ``bt -5``; None for all.

    GDB takes its slice of what filters yield and does not pass the number on, and its count leaves out elided frames.
    The function of its module `gdb.frames` that calls filters has it (GDB 13 to 18).
    """
    while caller is not None and caller.f_globals.get("__name__") == "gdb.frames":
        low, high = caller.f_locals.get("frame_low"), caller.f_locals.get("frame_high")
        if isinstance(low, int) and isinstance(high, int):
            return -low if low < 0 else high - low + 1 if high >= 0 else None
        caller = caller.f_back
    return None


def _count_inner(frame: gdb.Frame) -> int:
    """Return how many frames a frame has called, without inlined ones."""
    inner = 0
    newer: gdb.Frame | None = frame.newer()
    while newer is not None:
        inner += not is_inlined(newer)
        newer = newer.newer()
    return inner


def _note(text: str) -> PyFrame:
    return PyFrame(text, text, "", None)


class _Stack:
    """Decorates the frames of one stack."""

    def __init__(self, merged: MergedStack, source: SourceFiles,
                 native: Callable[[Decorator], Decorator]) -> None:
        self._merged = merged
        self._source = source
        self._native = native

    @functools.cached_property
    def _variables(self) -> Sequence[Sequence[Local]]:
        return self._merged.variables(settings().limits)

    def _python(self, base: Decorator, python: PyFrame, indented: bool, index: int) -> Decorator:
        def variables() -> Sequence[Local]:
            return self._variables[index] if index < len(self._variables) else ()

        if is_for_dap(base):
            return DapPythonFrame(base.inferior_frame(), python, self._source.own_path(python.file), variables)
        text = self._source(python.file, python.line) if python.line is not None else None
        return PythonFrame(base.inferior_frame(), python, indented, text, variables)

    def add_unmerged(self, frames: Iterator[Decorator], reason: str, limit: int | None) -> Iterator[Decorator]:
        """Add the Python frames to the innermost native frame, after a note with the reason."""
        note = _note(f"[Python frames cannot be placed: {reason}; they follow separately]")
        apart = self._merged.apart
        for base in itertools.islice(frames, 1):
            frame = base.inferior_frame()
            if frame.newer() is not None:  # the variables of one frame, in GDB/MI
                yield self._native(base)
                continue
            if is_for_dap(base):  # editors do not show elided frames
                yield self._native(base)
                yield DapPythonFrame(frame, note)
                yield from (self._python(base, python, False, index) for index, python in enumerate(apart))
                continue
            # GDB indents elided frames to the width of its numbers
            shown = [self._python(base, python, False, index) for index, python in enumerate(apart[:limit])]
            left = len(apart) - len(shown)
            if left:
                shown.append(PythonFrame(frame, _note(f"[{left} more Python frame{'s' if left != 1 else ''}]")))
            yield WithPythonFrames(self._native(base), [PythonFrame(frame, note), *shown])
        yield from map(self._native, frames)

    def replace_frames(self, frames: Iterator[Decorator]) -> Iterator[Decorator]:
        """Replace the interpreter's frames by the Python frames that they run."""
        merged = self._merged
        index = start = shown = 0
        inlined: list[Decorator] = []  # GDB shows inlined calls before the frame that they are a part of
        for number, base in enumerate(frames):
            frame = base.inferior_frame()
            if number == 0:
                # not the innermost frame if GDB/MI lists the variables of one
                index = start = _count_inner(frame)
                shown = sum(len(python) for place, python in merged.python.items() if place < start)
            if is_inlined(frame):
                inlined.append(base)
                continue
            if index >= len(merged.native) or merged.native[index][0] != frame.pc():
                # GDB unwinds differently from here on: its frames are shown as they are
                yield from map(self._native, itertools.chain(inlined, [base], frames))
                return
            if index in merged.python:
                for i, python in enumerate(merged.python[index]):
                    yield self._python(base, python, i > 0, shown)
                    shown += 1
            elif index not in merged.hidden or index == start > 0:  # GDB asks for the first one by its number
                yield from map(self._native, [*inlined, base])
            inlined.clear()
            index += 1
        yield from map(self._native, inlined)
