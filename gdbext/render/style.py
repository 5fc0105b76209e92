"""Colour for a terminal; pygments for source lines, when GDB's Python can import it."""

from __future__ import annotations

from typing import Any

_CODES = {"bad": "1;31", "good": "32", "lock": "1;33", "name": "1;36", "dim": "2"}


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

    def source(self, text: str) -> str:
        """A line of Python, highlighted; the text must be printable already."""
        if self._highlight is None:
            return text
        return str(self._highlight(text))
