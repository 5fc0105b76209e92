"""Colour for a terminal; pygments for source lines, when GDB's Python can import it."""

from __future__ import annotations

import re
from typing import Any

_CODES = {"bad": "1;31", "good": "32", "lock": "1;33", "name": "1;36", "dim": "2"}
_BOLD, _NOT_BOLD = "\x1b[1m", "\x1b[22m"
_SGR = re.compile(r"(\x1b\[[0-9;]*m)")


class Style:
    """Marks text up with ANSI colours, or leaves it alone when `colour` is false."""

    def __init__(self, colour: bool = False) -> None:
        self.colour = colour
        #: What to tell the user once about colour that is missing, or None.
        self.notice: str | None = None
        self._highlight: Any = None
        if colour:
            self._load_pygments()

    def _load_pygments(self) -> None:
        try:
            from pygments import highlight
            from pygments.formatters import TerminalFormatter
            from pygments.lexers import PythonLexer
        except Exception as error:  # an old Python meets a newer package: SyntaxError, AttributeError, ...
            self.notice = f"pygments cannot be imported by GDB's Python ({type(error).__name__}); source has no colour"
            return
        lexer, formatter = PythonLexer(), TerminalFormatter()
        self._highlight = lambda text: str(highlight(text, lexer, formatter)).rstrip("\n")

    def mark(self, text: str, kind: str) -> str:
        """The text in the colour of ``bad``, ``good``, ``lock``, ``name`` or ``dim``."""
        return f"\x1b[{_CODES[kind]}m{text}\x1b[0m" if self.colour else text

    def source(self, text: str, bold: tuple[int, int] | None = None) -> str:
        """A line of Python, highlighted; the text must be printable already.

        :param bold: first character of a part that stands out, and the first one behind it.
        """
        if not self.colour:
            return text
        highlighted = str(self._highlight(text)) if self._highlight is not None else text
        return highlighted if bold is None else _embolden(highlighted, *bold)


def _embolden(text: str, start: int, end: int) -> str:
    """The text with a part of its visible characters bold; pygments ends each colour with all attributes off."""
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
