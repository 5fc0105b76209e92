from __future__ import annotations

import pytest

from gdbext.render.source import source_lines


@pytest.mark.parametrize(("data", "lines"), [
    (b"", [""]),
    (b"a\nb\n", ["a", "b", ""]),
    (b"a\r\nb\rc", ["a", "b", "c"]),
    (b"\xef\xbb\xbfa\n", ["a", ""]),
    ("# -*- coding: utf-8 -*-\nprint('ü')".encode(), ["# -*- coding: utf-8 -*-", "print('ü')"]),
    (b"#!/usr/bin/python\n# vim: set fileencoding=iso-8859-1 :\n'\xfc'",
     ["#!/usr/bin/python", "# vim: set fileencoding=iso-8859-1 :", "'ü'"]),
    # what cannot be decoded is replaced, never an error
    (b"'\xfc'\n", ["'\ufffd'", ""]),
    (b"# coding: no-such-thing\n'\xfc'", ["# coding: no-such-thing", "'\ufffd'"]),
    (b"# coding: rot13\nnop", ["# coding: rot13", "nop"]),
    (b"# coding: punycode\nabc", ["# coding: punycode", "abc"]),
    (b"# coding: unicode_escape\n\\x41", ["# coding: unicode_escape", "\\x41"]),
    (b"a\x0cb\x0bc", ["a\x0cb\x0bc"]),
])
def test_lines(data: bytes, lines: list[str]) -> None:
    assert source_lines(data) == lines
