"""Source files taken apart into lines, as Python itself would read them."""

from __future__ import annotations

import codecs
import io
import re
import tokenize

#: Encodings in which people write source. Some of Python's codecs are no encodings, or take for ever on some input.
_ENCODING = re.compile(
    r"^(utf-8|utf-8-sig|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|gb\w+|big5\w*|euc_\w+|shift_jis\w*)$")
_LINE_END = re.compile("\r\n|\r|\n")


def source_lines(data: bytes) -> list[str]:
    """The lines of a Python source file, in the encoding that it declares (PEP 263), without their ends."""
    try:
        name = codecs.lookup(tokenize.detect_encoding(io.BytesIO(data[:4096]).readline)[0]).name
    except (SyntaxError, LookupError, ValueError):
        name = "utf-8"
    return _LINE_END.split(data.decode(name if _ENCODING.match(name) else "utf-8", "replace"))
