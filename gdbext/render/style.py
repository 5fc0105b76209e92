"""Colour and line width for a terminal; source lines are highlighted if GDB's Python can import pygments."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import Any, NamedTuple

from gdbext.render.escape import Safe

#: The colour codes of marked text.
COLOURS = {"bad": "1;31", "good": "32", "lock": "1;33", "name": "1;36", "dim": "2"}
_BOLD, _NOT_BOLD = "\x1b[1m", "\x1b[22m"
_SGR = re.compile(r"(\x1b\[[0-9;]*m)")
_CUT = "..."
#: The minimum width of lines, in columns.
_NARROWEST = 40
#: The extra indentation of continuation lines.
_HANGING = 4


def wants_colour(terminal: bool) -> bool:
    """Whether output is coloured where the user has not chosen.

    The environment decides: NO_COLOR, then FORCE_COLOR, if they are set and not empty (no-color.org, force-color.org).

    :param terminal: whether it goes to a terminal.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or terminal and os.environ.get("TERM", "dumb") != "dumb"


class Style:
    """Marks text with ANSI colours if `colour` is true.

    :param width: the maximum width of a line, in columns; None: unlimited.
    """

    def __init__(self, colour: bool = False, width: int | None = None) -> None:
        self.colour = colour
        self.width = None if width is None else max(width, _NARROWEST)
        #: A notice for the user about missing colour, or None.
        self.notice: str | None = None
        self._highlight: Any = None
        if colour:
            self._load_pygments()

    def _load_pygments(self) -> None:
        try:
            from pygments import highlight
            from pygments.formatters import TerminalFormatter
            from pygments.lexers import PythonLexer
        except Exception as error:  # an old Python with a newer package: SyntaxError, AttributeError, ...
            self.notice = f"pygments cannot be imported by GDB's Python ({type(error).__name__}); source has no colour"
            return
        lexer, formatter = PythonLexer(), TerminalFormatter()
        self._highlight = lambda text: str(highlight(text, lexer, formatter)).rstrip("\n")

    def mark(self, text: str, kind: str) -> str:
        """Colour text as ``bad``, ``good``, ``lock``, ``name`` or ``dim``."""
        return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m" if self.colour else text

    def source(self, text: str, bold: tuple[int, int] | None = None) -> str:
        """Highlight a line of Python that is already escaped.

        :param bold: the start and end of a part in bold.
        """
        if not self.colour:
            return text
        highlighted = str(self._highlight(text)) if self._highlight is not None else text
        return highlighted if bold is None else _embolden(highlighted, *bold)

    def wrap(self, text: Safe) -> Safe:
        """Break lines at spaces so that they fit, with continuation lines indented further.

        Words are never broken: they may be addresses or thread numbers.
        """
        width = self.width
        if width is None or all(len(line) <= width and line.isascii() for line in text.split("\n")):
            return text
        return Safe("\n".join(_wrapped(line, width) for line in text.split("\n")))


#: Text without colour, in lines of any length.
PLAIN = Style()


def _wrapped(line: str, width: int) -> str:
    if columns(_SGR.sub("", line)) <= width:
        return line
    body = line.lstrip(" ")
    indent = len(line) - len(body)
    lines, made, used = [], line[:indent], indent
    start = min(indent + _HANGING, width // 2)
    for space, word in re.findall(r"( *)([^ ]+)", body):
        length = columns(_SGR.sub("", word))
        if used + len(space) + length > width and used > start:
            lines.append(made)
            made, used = " " * start + word, start + length
        else:
            made, used = made + space + word, used + len(space) + length
    return "\n".join([*lines, made])


def columns(text: str) -> int:
    """The width of text without colour codes on a terminal, in columns."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    return 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1


def rows(text: str, width: int) -> int:
    """How many rows of a terminal a text takes."""
    return sum(max(1, -(-columns(_SGR.sub("", line)) // width)) for line in text.splitlines())


def shorten_path(path: str, room: int) -> str:
    """Omit leading folders of a path until it fits into `room` columns, as ``.../pkg/job.py``.

    The file's own name is never cut.
    """
    if columns(path) <= room:
        return path
    parts = path.split("/")
    for first in range(1, len(parts)):
        shorter = "/".join([_CUT, *parts[first:]])
        if columns(shorter) <= room or first == len(parts) - 1:
            return shorter if columns(shorter) < columns(path) else path
    return path


class Excerpt(NamedTuple):
    """The visible text of a line, and the start and end of its important part, or None."""

    text: str
    part: tuple[int, int] | None


def excerpt(text: str, room: int, part: tuple[int, int] | None = None) -> Excerpt:
    """Cut a line to `room` columns, around its important part if there is one.

    :param part: the start and end of the important part.
    """
    if columns(text) <= room:
        return Excerpt(text, part)
    first = 0
    if part is not None and columns(text[:part[1]]) > room - len(_CUT):
        # centre the part, or show its beginning if it does not fit
        around = max(room - 2 * len(_CUT) - columns(text[slice(*part)]), 0)
        lead = around - min(columns(text[part[1]:]), around // 2)
        first = part[0] - _fitting(text[:part[0]][::-1], 0, lead)
        # leave no unused room after the end of the line
        first -= _fitting(text[:first][::-1], 0, room - len(_CUT) - columns(text[first:]))
        # the omitted text must be longer than the ellipsis
        first = first if first > len(_CUT) else 0
    before = _CUT if first else ""
    left = room - len(before)
    last = _fitting(text, first, left)
    if last < len(text):
        last = _fitting(text, first, left - len(_CUT))
    shown = before + text[first:last] + (_CUT if last < len(text) else "")
    if part is None or part[0] >= last:
        return Excerpt(shown, None)
    moved = len(before) - first
    return Excerpt(shown, (part[0] + moved, min(part[1], last) + moved))


def _fitting(text: str, first: int, room: int) -> int:
    """The end of the text that starts at `first` and fits into `room` columns."""
    last = first
    while last < len(text) and _columns_of(text[last]) <= room:
        room -= _columns_of(text[last])
        last += 1
    return last


def _embolden(text: str, start: int, end: int) -> str:
    """Make some visible characters bold; pygments resets all attributes after each colour."""
    made: list[str] = []
    at = 0
    for part in _SGR.split(text):
        if not part.startswith("\x1b"):
            first, last = (min(max(place - at, 0), len(part)) for place in (start, end))
            at += len(part)
            if first < last:
                part = f"{part[:first]}{_BOLD}{part[first:last]}{_NOT_BOLD}{part[last:]}"
        made.append(part)
    return "".join(made)
