"""Words as plain text, without colours and links."""

from __future__ import annotations

from gdbext.narrate.words import Foreign, Marked, Words
from gdbext.render.escape import printable


def one_line(words: Words) -> str:
    """Words on one line; text from the target is escaped and cut."""
    return "".join([printable(word.text, word.limit) if isinstance(word, Foreign) else
                    one_line(word.words) if isinstance(word, Marked) else word for word in words])
