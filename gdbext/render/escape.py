"""Escaping of text from the target, so that none of its control characters reach a terminal or a file."""

from __future__ import annotations

import unicodedata

#: Categories that move the cursor, change direction, or show nothing: control, format, surrogate, private use.
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str, limit: int = 1000) -> str:
    r"""Escape control and direction characters, and cut the text after `limit` characters.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    cut = text if len(text) <= limit else text[:limit] + "..."
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(_escaped(char) if unicodedata.category(char) in _UNSAFE else char for char in cut)


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
