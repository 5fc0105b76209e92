"""The frame filter `gdbext-python`: GDB's own `bt` with Python frames in place of the interpreter's machinery.

GDB numbers frames as they are; a Python frame has the number of the native frame that runs it, so `frame`, `up` and
`down` go where they always do. `bt -no-filters` shows everything.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union, cast

import gdb
from gdb.FrameDecorator import FrameDecorator, FrameVars  # type: ignore[attr-defined]

from gdbext.debugger.console import decoded
from gdbext.debugger.dap_frames import MAX_PATH, DapPythonFrame, is_for_dap
from gdbext.debugger.settings import Settings, settings
from gdbext.debugger.source import source_files
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

    from gdb.FrameDecorator import DAPFrameDecorator

    Decorator = Union[FrameDecorator, DAPFrameDecorator]

NAME = "gdbext-python"
#: Before other filters: they need not look at the frames that are left out here.
_PRIORITY = 1000
#: As wide as GDB's numbers of frames.
_INDENT = "    "
_BELOW = " " * 8
_MACHINE_INTERFACE = re.compile(rb"\0--?(?:i|interpreter)(?:=|\0)mi")
_machine: bool | None = None
#: For how many places it is remembered whether GDB can name them.
_MAX_NAMES = 1 << 16


class Variable:
    """A variable as GDB asks for one; GDB's own class reads variables itself (GDB 14 and later)."""

    def __init__(self, name: str, value: str) -> None:
        self._name = name
        self._value = value

    def symbol(self) -> str:
        """Its name."""
        return self._name

    def value(self) -> str:
        """Its value, as a text."""
        return self._value


class PythonFrame(FrameDecorator):
    """A Python frame, as GDB prints it: function, file and line, without address and arguments.

    :param indented: whether it follows another one of the same native frame, whose number GDB prints once.
    :param text: the source line that runs, where it is known.
    """

    def __init__(self, base: gdb.Frame, frame: PyFrame, indented: bool = False, text: str | None = None,
                 variables: Callable[[], Sequence[Local]] = tuple) -> None:
        super().__init__(base)
        self._variables = variables
        # a thousand threads have tens of thousands of frames
        self._function, self._file = _printable(frame.function, frame.file, frame.kind)
        self._line = frame.line
        if _is_machine_read():
            return
        if indented:
            self._function = _INDENT + self._function
        if text is not None and text.strip():
            # GDB prints nothing below a frame, so that the line goes with the file's name
            self._file += f":{frame.line}\n{_BELOW}{printable(text.strip(), 160)}"
            self._line = None

    def function(self) -> str:
        """The function's name, where those of other frames are."""
        return self._function

    def filename(self) -> str:
        """The file's name."""
        return self._file

    def line(self) -> int | None:
        """The line that runs."""
        return self._line

    def address(self) -> None:
        """No address: that of the native frame is the same for all Python frames which it runs."""

    def frame_args(self) -> None:
        """No arguments: those of the native frame are the interpreter's."""

    def frame_locals(self) -> Iterator[Variable] | None:
        """Its variables for ``bt -full``, their values as texts; those of the native frame are the interpreter's."""
        found = [Variable(printable(each.name, 60), printable(each.value, 400)) for each in self._variables()]
        return iter(found) if found else None

    def elided(self) -> None:
        """Nothing is left out below it."""


class OddFrame(FrameDecorator):
    """A native frame with a name that GDB's own decorator does not give: there is none, or it is no UTF-8."""

    def function(self) -> str:
        """Its name; where there is none, what GDB prints without filters."""
        return printable(decoded(self.inferior_frame().name) or "??", 120)

    def filename(self) -> str | None:
        """The source file, or the library."""
        name = decoded(super().filename)
        return printable(name, 300) if name is not None else None

    # GDB's own first asks for the name of the source file, to see whether there is one

    def line(self) -> int | None:
        """The line of the source file."""
        try:
            return super().line()
        except UnicodeDecodeError:
            return self.inferior_frame().find_sal().line or None

    def frame_args(self) -> Any:
        """Its arguments."""
        try:
            return super().frame_args()
        except UnicodeDecodeError:
            return FrameVars(self.inferior_frame()).fetch_frame_args()

    def frame_locals(self) -> Any:
        """Its local variables."""
        try:
            return super().frame_locals()
        except UnicodeDecodeError:
            return FrameVars(self.inferior_frame()).fetch_frame_locals()


class DapOddFrame(OddFrame):
    """An `OddFrame` for `dap_frames`: its file is a source file, never a library."""

    def filename(self) -> str | None:
        """The path of the source file."""
        symtab: gdb.Symtab | None = self.inferior_frame().find_sal().symtab
        name = decoded(symtab.fullname) if symtab is not None else None
        return printable(name, MAX_PATH) if name is not None else None


class Names:
    """Which native frames GDB's own decorators can name; by program counter, since most threads share theirs."""

    def __init__(self) -> None:
        self._plain: dict[tuple[int, int], bool] = {}

    def named(self, base: Decorator) -> Decorator:
        """The decorator, or one that has a name in its place."""
        frame = base.inferior_frame()
        try:
            # calls that were inlined at one place have names of their own
            at = (frame.pc(), frame.type()) if frame.type() != gdb.INLINE_FRAME else None
            plain = self._plain.get(at) if at is not None else None
            if plain is None:
                plain = _is_plain(frame)
                if at is not None and len(self._plain) < _MAX_NAMES:
                    self._plain[at] = plain
        except gdb.error:  # GDB itself says so when it prints the frame
            return base
        if plain:
            return base
        return DapOddFrame(frame) if is_for_dap(base) else OddFrame(frame)


def _is_plain(frame: gdb.Frame) -> bool:
    try:
        FrameDecorator(frame).filename()  # GDB's own, whatever other filters have made of it
        return bool(frame.name())
    except UnicodeDecodeError:
        return False


class WithPythonFrames(FrameDecorator):
    """A frame with Python frames below it that cannot be placed among the native ones.

    They are its elided frames, so that GDB does not count them, for ``bt N`` and for programs that read; ``bt -hide``
    leaves them out.
    """

    def __init__(self, base: Decorator, apart: Sequence[Decorator]) -> None:
        super().__init__(base)  # type: ignore[arg-type]
        self._apart = apart

    def elided(self) -> Iterator[Decorator]:  # type: ignore[override]
        """What GDB prints below it, further indented."""
        return iter(self._apart)


class Note(PythonFrame):
    """A remark in place of a frame."""

    def __init__(self, base: gdb.Frame, text: str) -> None:
        super().__init__(base, PyFrame(text, text, "", None))

    def filename(self) -> None:  # type: ignore[override]
        """Nowhere."""


class FrameFilter:
    """Puts Python frames into stacks that GDB prints. Whatever goes wrong, GDB's own frames are shown."""

    def __init__(self) -> None:
        self.name = NAME
        self.priority = _PRIORITY
        self.enabled = True
        # of one inferior, as long as it stands still: GDB asks for each thread's stack by itself
        self._inferior: int | None = None
        self._target: SelectedThread | None = None
        self._stacks: ThreadStacks | None = None
        self._source: tuple[Settings, SourceFiles] | None = None
        self._fails = False
        self._names = Names()
        gdb.frame_filters[NAME] = self
        for event in (gdb.events.cont, gdb.events.exited, gdb.events.new_objfile, gdb.events.memory_changed,
                      gdb.events.register_changed, gdb.events.inferior_call, gdb.events.clear_objfiles):
            event.connect(self._forget)

    def _forget(self, event: object) -> None:
        self._target, self._stacks, self._source, self._fails, self._names = None, None, None, False, Names()

    def filter(self, iterator: Iterator[Decorator]) -> Iterator[Decorator]:
        """Replace frames; GDB calls this, innermost frame first."""
        try:
            merged = self._merged()
        except (GdbextError, gdb.error, ArithmeticError, LookupError, TypeError, ValueError):
            self._fails = True
            merged = None
        if merged is None or self._source is None:
            return map(self._names.named, iterator)
        return _replaced(iterator, merged, self._source[1], self._names.named, _asked(sys._getframe(1)))

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


def _asked(caller: FrameType | None) -> int | None:
    """How many frames GDB was asked for, as by ``bt 5`` and ``bt -5``; None for all.

    GDB takes its slice of what filters yield and does not pass the number on, and its count leaves out elided frames.
    The function of its module `gdb.frames` that calls filters has it (GDB 13 to 18).
    """
    while caller is not None and caller.f_globals.get("__name__") == "gdb.frames":
        low, high = caller.f_locals.get("frame_low"), caller.f_locals.get("frame_high")
        if isinstance(low, int) and isinstance(high, int):
            return -low if low < 0 else high - low + 1 if high >= 0 else None
        caller = caller.f_back
    return None


@functools.lru_cache(maxsize=4096)
def _printable(function: str, file: str, kind: str | None) -> tuple[str, str]:
    return printable(function, 120) + (f" [{kind}]" if kind else ""), printable(file, 300)


def _is_machine_read() -> bool:
    """Whether GDB talks to a program (MI) and not to a person; its command line is the only sign."""
    global _machine
    if _machine is None:
        try:
            with open("/proc/self/cmdline", "rb") as file:
                _machine = _MACHINE_INTERFACE.search(file.read()) is not None
        except OSError:
            _machine = False
    return _machine


class SelectedThread(GdbTarget):
    """A target of the selected thread alone; nothing switches threads, since GDB is in the middle of a stack."""

    def __init__(self) -> None:
        super().__init__(may_load=False)

    def threads(self) -> list[ThreadRef]:
        """That thread."""
        thread = gdb.selected_thread()
        assert thread is not None
        pid, lwp, tid = thread.ptid
        return [ThreadRef(thread.num, lwp or tid or pid, None)]

    def _switch(self, thread: ThreadRef) -> gdb.Frame:
        return gdb.newest_frame()


def _replaced(frames: Iterator[Decorator], merged: MergedStack, source: Callable[[str, int], str | None],
              named: Callable[[Decorator], Decorator], asked: int | None) -> Iterator[Decorator]:
    index = shown = 0

    @functools.cache
    def all_variables() -> Sequence[Sequence[Local]]:
        return merged.variables(settings().limits)

    def variables(number: int) -> Sequence[Local]:
        found = all_variables()
        return found[number] if 0 <= number < len(found) else ()

    def python_frame(base: Decorator, python: PyFrame, indented: bool, number: int) -> Decorator:
        frame, own = base.inferior_frame(), functools.partial(variables, number)
        if is_for_dap(base):
            return cast("Decorator", DapPythonFrame(frame, python, own))
        text = source(python.file, python.line) if python.line is not None else None
        return PythonFrame(frame, python, indented, text, own)

    if merged.unmerged is not None:
        note = f"[Python frames cannot be placed: {printable(explain(merged.unmerged), 200)}; by themselves they are]"
        for base in itertools.islice(frames, 1):
            # GDB indents what is elided as far as its numbers
            if is_for_dap(base):  # editors do not show elided frames
                apart = [python_frame(base, python, False, number) for number, python in enumerate(merged.apart)]
                yield from (named(base), python_frame(base, PyFrame(note, note, "", None), False, -1), *apart)
            else:
                elided: list[Decorator] = [Note(base.inferior_frame(), note)]
                elided += [python_frame(base, python, False, number)
                          for number, python in enumerate(merged.apart[:asked])]
                left = len(merged.apart) - len(elided) + 1
                if left:
                    elided.append(Note(base.inferior_frame(), f"[{left} more Python frame{'s' if left != 1 else ''}]"))
                yield WithPythonFrames(named(base), elided)
        yield from map(named, frames)
        return
    waiting: list[Decorator] = []  # inlined calls, which GDB shows before the frame that they are a part of
    for base in frames:
        frame = base.inferior_frame()
        if frame.type() in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            waiting.append(base)
            continue
        if index >= len(merged.native) or merged.native[index][0] != frame.pc():
            # GDB unwinds otherwise from here on: its frames as they are
            yield from map(named, itertools.chain(waiting, [base], frames))
            return
        if index in merged.python:
            for i, python in enumerate(merged.python[index]):
                yield python_frame(base, python, i > 0, shown)
                shown += 1
        elif index not in merged.hidden:
            yield from waiting
            yield named(base)
        waiting.clear()
        index += 1
    yield from waiting
