"""Decorators of Python frames for the Debug Adapter Protocol (DAP), which editors speak with ``gdb -i=dap``.

GDB 14 and later have this adapter. It uses the same frame filters as `bt`, but other parts of the result: each frame
needs an address, a file name is the full path of a source file or None, and a variable needs a `gdb.Value`.
Source: GDB 16.3 and 18.1 gdb/python/lib/gdb/dap/bt.py, scopes.py, varref.py and sources.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import gdb
import gdb.FrameDecorator

from gdbext.model import Local, PyFrame
from gdbext.render.escape import printable

#: Longest path of a source file.
MAX_PATH = 4096
#: How many decorators of other filters may wrap one of GDB's.
_MAX_WRAPPED = 20


def is_for_dap(decorator: object) -> bool:
    """Whether the adapter made a frame decorator, and not `bt`."""
    ours = getattr(gdb.FrameDecorator, "DAPFrameDecorator", None)  # GDB 13 and earlier have no adapter
    if ours is None:
        return False
    for _ in range(_MAX_WRAPPED):  # other filters wrap what GDB has made
        if isinstance(decorator, ours):
            return True
        decorator = getattr(decorator, "_base", None)
    return False


class _Name(str):
    """A variable's name. GDB 18 reads `print_name`, as of a `gdb.Symbol`; GDB 16 uses the text itself."""

    @property
    def print_name(self) -> str:
        return str(self)


class _Text(gdb.Value):
    """A value that `_printer` shows as plain text; GDB would show a text of its own in quotes."""

    text: str


class _Printer:
    """Shows a `_Text`."""

    def __init__(self, value: _Text) -> None:
        self._text = value.text

    def to_string(self) -> str:
        return self._text


def _printer(value: gdb.Value) -> _Printer | None:
    """Find the printer of a value; GDB calls this for each value that it shows."""
    return _Printer(value) if isinstance(value, _Text) else None


_printer.name = "gdbext-python"  # type: ignore[attr-defined]
_printer.enabled = True  # type: ignore[attr-defined]


def register() -> None:
    """Have GDB show values of Python variables; a second call has no effect."""
    if _printer not in gdb.pretty_printers:
        gdb.pretty_printers.append(_printer)


class DapVariable:
    """A variable of a Python frame."""

    def __init__(self, name: str, value: str) -> None:
        self._name = _Name(name)
        self._value = value

    def symbol(self) -> str:
        """Its name."""
        return self._name

    def value(self) -> gdb.Value:
        """Its value. It has no address in the target, so an editor cannot assign to it."""
        found = _Text(gdb.Value(0).cast(gdb.lookup_type("void")))
        found.text = self._value
        return found


class DapPythonFrame:
    """A Python frame; `base` is the native frame that runs it."""

    def __init__(self, base: gdb.Frame, frame: PyFrame, variables: Callable[[], Sequence[Local]] = tuple) -> None:
        self._base = base
        self._function = printable(frame.function, 120) + (f" [{frame.kind}]" if frame.kind else "")
        self._line = frame.line
        self._variables = variables
        is_path = frame.file.startswith("/") and printable(frame.file, MAX_PATH) == frame.file
        self._file = frame.file if is_path else None
        if not is_path and frame.file:
            # an editor would resolve it in its own folder, and show a different file
            place = printable(frame.file, 300) + (f":{frame.line}" if frame.line is not None else "")
            self._function += f" at {place}"

    def inferior_frame(self) -> gdb.Frame:
        """The native frame, in which GDB evaluates expressions."""
        return self._base

    def function(self) -> str:
        """The function's name, followed by the file's name unless that is an absolute path."""
        return self._function

    def filename(self) -> str | None:
        """The path of the source file."""
        return self._file

    def line(self) -> int | None:
        """The line that runs."""
        return self._line

    def address(self) -> int:
        """The program counter of the native frame; all Python frames that it runs share it."""
        return self._base.pc()

    def frame_args(self) -> None:
        """No arguments: the native frame's arguments are the interpreter's."""

    def frame_locals(self) -> Iterator[DapVariable] | None:
        """Its Python variables, instead of the native frame's."""
        found = [DapVariable(printable(each.name, 60), printable(each.value, 400)) for each in self._variables()]
        return iter(found) if found else None

    def elided(self) -> None:
        """No hidden frames."""
