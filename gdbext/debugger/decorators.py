"""Frame decorators of Python frames, and of native frames whose names GDB's own decorators cannot return.

There are two kinds: for `bt`, and for the Debug Adapter Protocol (DAP), which editors use with ``gdb -i=dap`` (GDB 14
and later). The adapter uses the same frame filters as `bt`, but other parts of a decorator: each frame needs an
address, a file name is the full path of a source file or None, and a variable needs a `gdb.Value`.
Source: GDB 16.3 and 18.1 gdb/python/lib/gdb/dap/bt.py, scopes.py, varref.py and sources.py.

GDB's manual describes the methods, under "Frame Decorator API".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Union

import gdb
import gdb.FrameDecorator
from gdb.FrameDecorator import FrameDecorator, FrameVars  # type: ignore[attr-defined]

from gdbext.debugger.console import decoded
from gdbext.model import Local, PyFrame
from gdbext.render.escape import printable

if TYPE_CHECKING:
    from gdb.FrameDecorator import DAPFrameDecorator

    Decorator = Union[FrameDecorator, DAPFrameDecorator]

#: Longest path of a source file.
_MAX_PATH = 4096
#: How many decorators of other filters may wrap one of GDB's.
_MAX_WRAPPED = 20
#: The width of GDB's frame numbers.
_INDENT = "    "
_BELOW = " " * 8
_MACHINE_INTERFACE = re.compile(rb"\0--?(?:i|interpreter)(?:=|\0)mi")
#: The number of code addresses for which `NativeFrames` remembers a result.
_MAX_NAMES = 1 << 16


def is_for_dap(decorator: object) -> bool:
    """Whether the adapter made a frame decorator, and not `bt`."""
    dap_decorator = getattr(gdb.FrameDecorator, "DAPFrameDecorator", None)  # GDB 13 and earlier have no adapter
    if dap_decorator is None:
        return False
    for _ in range(_MAX_WRAPPED):  # other filters wrap GDB's decorators
        if isinstance(decorator, dap_decorator):
            return True
        decorator = getattr(decorator, "_base", None)
    return False


class _Variable:
    """A variable as `bt` asks for one; the class `gdb.FrameDecorator.SymValueWrapper` reads variables itself."""

    def __init__(self, name: str, value: object, kind: str = "") -> None:
        self._name = name
        self._value = value
        self._kind = kind

    def symbol(self) -> str:
        return self._name

    def value(self) -> object:
        return self._value


class _DapName(str):
    """A variable's name. GDB 18 reads `print_name`, as of a `gdb.Symbol`; GDB 16 uses the string itself."""

    @property
    def print_name(self) -> str:
        return str(self)


class _DapType:
    """A `gdb.Type` with another name; that class has no subclasses."""

    def __init__(self, name: str, real: gdb.Type) -> None:
        self._name = name
        self._real = real

    def __str__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _DapText(gdb.Value):
    """A value that is its own pretty-printer and shows plain text; GDB would show a string in quotes."""

    text: str
    kind: str

    def to_string(self) -> str:
        return self.text

    @property
    def type(self) -> Any:  # type: ignore[override]
        return _DapType(self.kind, super().type)


class _DapVariable(_Variable):
    """A variable whose value has no address in the target, so an editor cannot assign to it."""

    def symbol(self) -> str:
        return _DapName(self._name)

    def value(self) -> _DapText:
        found = _DapText(0)  # not a type that GDB would have to find: Rust has no void
        found.text, found.kind = str(self._value), self._kind
        return found


def _printer(value: gdb.Value) -> _DapText | None:
    return value if isinstance(value, _DapText) else None


_printer.name = "gdbext-python"  # type: ignore[attr-defined]
_printer.enabled = True  # type: ignore[attr-defined]


def register() -> None:
    """Have GDB show values of Python variables; a second call has no effect."""
    if _printer not in gdb.pretty_printers:
        gdb.pretty_printers.append(_printer)


class PythonFrame(FrameDecorator):
    """A Python frame as `bt` shows it: function, file and line.

    It has no address, since all Python frames that a native frame runs share that frame's; and no arguments, since the
    native frame's are the interpreter's.

    A note in place of a frame is a Python frame without a file.

    :param base: the native frame that runs it.
    :param indented: whether it follows another Python frame of the same native frame, whose number GDB shows once.
    :param text: its source line, if known.
    """

    _variable: ClassVar[type[_Variable]] = _Variable

    def __init__(self, base: gdb.Frame, frame: PyFrame, indented: bool = False, text: str | None = None,
                 variables: Callable[[], Sequence[Local]] = tuple) -> None:
        super().__init__(base)
        self._variables = variables
        self._line = frame.line
        self._function, self._file = _names(frame.function, frame.file, frame.kind)
        if _is_machine_read():
            return
        if indented:
            self._function = _INDENT + self._function
        if text is not None and text.strip():
            # GDB has no method for the source line, so it is appended to the file's name
            self._file += f":{frame.line}\n{_BELOW}{printable(text.strip(), 160)}"
            self._line = None

    def function(self) -> str:
        return self._function

    def filename(self) -> str | None:
        return self._file or None

    def line(self) -> int | None:
        return self._line

    def address(self) -> int | None:
        return None

    def frame_args(self) -> None:
        return None

    def frame_locals(self) -> Iterator[_Variable] | None:
        found = [self._variable(printable(each.name, 60), printable(each.value, 400), printable(each.type, 60))
                 for each in self._variables()]
        return iter(found) if found else None

    def elided(self) -> None:
        return None


@functools.lru_cache(maxsize=4096)  # a thousand threads have tens of thousands of frames
def _names(function: str, file: str, kind: str | None) -> tuple[str, str]:
    return printable(function, 120) + (f" [{kind}]" if kind else ""), printable(file, 300)


@functools.cache
def _is_machine_read() -> bool:
    """Whether a program reads GDB's output (GDB/MI); GDB's command line is the only sign."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return _MACHINE_INTERFACE.search(file.read()) is not None
    except OSError:
        return False


class DapPythonFrame(PythonFrame):
    """A Python frame for DAP. Its function includes the file's name if the file is not found.

    :param path: the absolute path of its source file on this machine, if found.
    """

    _variable = _DapVariable

    def __init__(self, base: gdb.Frame, frame: PyFrame, path: str | None = None,
                 variables: Callable[[], Sequence[Local]] = tuple) -> None:
        super().__init__(base, frame, variables=variables)
        self._path = path if path is not None and printable(path, _MAX_PATH) == path else None
        if self._path is None and frame.file:
            # an editor would show an error, or with a relative path another file in its own folder
            self._function += f" at {self._file}" + (f":{frame.line}" if frame.line is not None else "")

    def filename(self) -> str | None:
        return self._path

    def address(self) -> int:
        return self.inferior_frame().pc()


class SafeArguments(FrameDecorator):
    """A native frame whose arguments include one that the compiler has removed or made a constant.

    For such an argument GDB/MI repeats one step forever if a frame filter is enabled (GDB 13.1 to 18.1 gdb/python/
    py-framefilter.c, enumerate_args: `continue` without the next item). This class gives it as a name and a value,
    which GDB shows in the same way.
    """

    def frame_args(self) -> Any:
        return _arguments(self.inferior_frame())


def _arguments(frame: gdb.Frame) -> list[Any] | None:
    found = FrameVars(frame).fetch_frame_args()
    return [_Variable(each.symbol().print_name, each.symbol().value(frame)) if _is_removed(each.symbol()) else each
            for each in found] or None


def _is_removed(symbol: gdb.Symbol) -> bool:
    # GDB's gdb/mi/mi-cmd-stack.c, mi_should_print, rejects these and further classes that no argument has
    return symbol.addr_class in (gdb.SYMBOL_LOC_CONST, gdb.SYMBOL_LOC_CONST_BYTES, gdb.SYMBOL_LOC_OPTIMIZED_OUT)


class FallbackFrame(FrameDecorator):
    """A native frame with a name that GDB's own decorator cannot return: it is missing, or not UTF-8."""

    def function(self) -> str:
        return printable(decoded(self.inferior_frame().name) or "??", 120)

    def filename(self) -> str | None:
        name = decoded(super().filename)
        return printable(name, 300) if name is not None else None

    # GDB's own methods read the name of the source file before the following

    def line(self) -> int | None:
        return self.inferior_frame().find_sal().line or None

    def frame_args(self) -> Any:
        return _arguments(self.inferior_frame())

    def frame_locals(self) -> Any:
        return FrameVars(self.inferior_frame()).fetch_frame_locals() or None


class DapFallbackFrame(FallbackFrame):
    """A `FallbackFrame` for DAP: its file is a source file, never a library."""

    def filename(self) -> str | None:
        symtab: gdb.Symtab | None = self.inferior_frame().find_sal().symtab
        name = decoded(symtab.fullname) if symtab is not None else None
        return printable(name, _MAX_PATH) if name is not None else None


class NativeFrames:
    """Decorates native frames. Remembers by code address which of them need a decorator of their own."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], type[FrameDecorator] | None] = {}

    def decorate(self, base: Decorator) -> Decorator:
        """Replace a decorator that cannot return the frame's names, or with whose arguments GDB never ends."""
        frame = base.inferior_frame()
        try:
            # calls that were inlined at the same address have different names
            key = (frame.pc(), frame.type()) if frame.type() != gdb.INLINE_FRAME else None
            if key is not None and key in self._known:
                found = self._known[key]
            else:
                found = _own_decorator(frame)
                if key is not None and len(self._known) < _MAX_NAMES:
                    self._known[key] = found
        except gdb.error:  # GDB reports it when it prints the frame
            return base
        if found is None:
            return base
        if is_for_dap(base):
            return DapFallbackFrame(frame) if found is FallbackFrame else base
        return found(frame)


def _own_decorator(frame: gdb.Frame) -> type[FrameDecorator] | None:
    try:
        FrameDecorator(frame).filename()  # of GDB's own decorator, whichever other filters have replaced it
        if not frame.name():
            return FallbackFrame
        arguments = FrameVars(frame).fetch_frame_args()
        return SafeArguments if any(_is_removed(each.symbol()) for each in arguments) else None
    except UnicodeDecodeError:
        return FallbackFrame


class WithPythonFrames(FrameDecorator):
    """A native frame with all Python frames of a thread whose Python stack cannot be merged with the native one.

    The Python frames are its elided frames, so that GDB does not count them, neither for ``bt N`` nor for programs
    that read its output; ``bt -hide`` leaves them out.
    """

    def __init__(self, base: Decorator, elided: Sequence[Decorator]) -> None:
        super().__init__(base)  # type: ignore[arg-type]
        self._elided = elided

    def elided(self) -> Iterator[Decorator]:  # type: ignore[override]
        return iter(self._elided)
