"""Escaping of text from the target, so that none of its control characters reach a terminal or a file.

Whatever writes text for people takes `Safe` only, so mypy finds text that was not escaped.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import NewType

#: Categories that move the cursor, change direction, or show nothing: control, format, surrogate, private use.
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
#: Sequences that only colour text or make it bold; others may hide it (ECMA-48, 8.3.117 SGR).
_COLOUR = re.compile(r"(\x1b\[(?:(?:0?[01234]|22|3[0-79]|49|9[0-7])(?:;(?=[0-9])|(?=m)))+m)")

#: Text in which all control characters but line feeds and colours are escaped. Only `gdbext.render` makes it.
Safe = NewType("Safe", str)
#: No text.
NOTHING = Safe("")


def printable(text: str, limit: int = 1000) -> Safe:
    r"""Escape control and direction characters, line feeds too, and cut the text after `limit` characters.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    cut = text if len(text) <= limit else text[:limit] + "..."
    if cut.isascii() and cut.isprintable():
        return Safe(cut)
    return Safe("".join(_escaped(char) if unicodedata.category(char) in _UNSAFE else char for char in cut))


def as_text(lines: Iterable[str]) -> Safe:
    r"""Join lines, each with a line feed at its end; escape what is left of control characters in them.

    >>> as_text(["a\nb", "\x1b[31mred\x1b[0m \x1b[8mhidden"])
    'a\\x0ab\n\x1b[31mred\x1b[0m \\x1b[8mhidden\n'
    """
    return Safe("".join([f"{_one_line(line)}\n" for line in lines]))


def cleaned(text: str) -> Safe:
    """A text from another process, in which control characters but line feeds and colours are escaped again."""
    lines = text.split("\n")
    return as_text(lines if lines[-1] else lines[:-1])


def joined(sections: Iterable[Safe]) -> Safe:
    """The sections of a text, without those that are empty, with an empty line between them."""
    stripped = [section.strip("\n") for section in sections]
    whole = "\n\n".join([section for section in stripped if section])
    return Safe(whole + "\n") if whole else NOTHING


def concatenated(texts: Iterable[Safe]) -> Safe:
    """Texts, one directly after the other."""
    return Safe("".join(texts))


def json_line(document: object) -> Safe:
    """A document as JSON in ASCII, on one line."""
    return Safe(json.dumps(document) + "\n")


def _one_line(line: str) -> str:
    if line.isascii() and line.isprintable():
        return line
    parts = _COLOUR.split(line)
    return "".join([part if place % 2 else printable(part, len(part)) for place, part in enumerate(parts)])


def fits_in_command(name: str) -> bool:
    """Whether a GDB command can contain the name of a file: it is valid UTF-8 on one line."""
    return "\n" not in name and (name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name))


def _escaped(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not valid UTF-8 (PEP 383)
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
