"""Frames of Python and of machine code, and the stacks of both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from typing import NamedTuple, Union

from gdbext.model.reasons import Reason
from gdbext.record import record


class Columns(NamedTuple):
    """Which part of its line a frame runs: from byte `start` of that line to before byte `end` of line `end_line`.

    Bytes of UTF-8, counted from 0, as CPython 3.11 and later record them; characters are known only with the source.
    """

    start: int
    end: int
    end_line: int


@record
class PyFrame:
    """One Python frame. `columns` is None where they are not recorded.

    `kind` is ``generator``, ``coroutine`` or ``async generator``, None for an ordinary function.
    """

    function: str
    qualified_name: str
    file: str
    line: int | None
    columns: Columns | None = None
    kind: str | None = None

    @property
    def is_module(self) -> bool:
        """Whether the frame runs the code of a module, outside of functions."""
        return self.function == "<module>"


@record
class InlinedCall:
    """A function that the compiler inlined, and the place in its source; `file` and `line` are None if not recorded."""

    function: str
    file: str | None = None
    line: int | None = None


@record
class NativeFrame:
    """One frame of machine code. `function` is None where no symbol covers the program counter.

    `inlined` are the inlined functions at the program counter, innermost first: each was called by the next one,
    and the last one by `function`, in `line`.
    """

    function: str | None
    module: str | None
    pc: int
    file: str | None = None
    line: int | None = None
    inlined: tuple[InlinedCall, ...] = ()


Frame = Union[PyFrame, NativeFrame]


@record
class Local:
    """A variable of a frame: its name, its type's, and its value as text."""

    name: str
    type: str
    value: str


@record
class Part:
    """A part of a presented stack: a frame with its `note`, or with a `text`, several frames that the text stands for.

    `name` is the function's name in its own language, for a single frame whose symbol does not contain it.
    """

    frames: tuple[Frame, ...]
    text: str | None = None
    note: str | None = None
    name: str | None = None


@record
class MixedStack:
    """`frames` are innermost first, and each is in one of `parts`; `variables` are those of frames, by index.

    `unmerged` says why Python and native frames could not be merged; None if they are. `left_out` counts
    further frames that a document did not list.
    """

    frames: tuple[Frame, ...] = ()
    parts: tuple[Part, ...] = ()
    unmerged: Reason | None = None
    variables: Mapping[int, tuple[Local, ...]] = field(default_factory=dict)
    left_out: int = 0


#: The files of Python itself and of installed packages, with the name of the package or module.
LIBRARY = re.compile(
    r"(?:\b(?:site|dist)-packages/|/lib(?:64|32)?/python\d[\w.]*/|^<frozen |\bpython\d+\.zip/)(?=([^/>]+))")


def library_of(frame: Frame) -> str | None:
    """The package or module of a Python frame that is not the program's own code; None for the program's."""
    return _library_of_file(frame.file) if isinstance(frame, PyFrame) else None


@lru_cache(maxsize=1 << 12)
def _library_of_file(file: str) -> str | None:
    # the standard library's folder contains that of packages
    names = LIBRARY.findall(file)
    return str(names[-1]).partition(".")[0] if names else None
