from __future__ import annotations

import sys
import unicodedata

import pytest

from gdbext.render.escape import fits_in_command, printable
from tests.support.fake_report import HOSTILE


@pytest.mark.parametrize("text", ["", "work", "/srv/app/job.py:41", "a b", "Größe", "данные", "数据", "😀", "a\\x1b",
                                  "<lambda>"])
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(("text", "expected"), [
    ("a\x1b[2Jb", "a\\x1b[2Jb"), ("a\nb", "a\\x0ab"), ("\r", "\\x0d"), ("\t", "\\x09"), ("\0", "\\x00"),
    ("\x7f", "\\x7f"), ("\x9b31m", "\\x9b31m"), ("\x85", "\\x85"), ("\xad", "\\xad"), ("\u202e", "\\u202e"),
    ("\u2066", "\\u2066"), ("\u200f", "\\u200f"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"), ("\ufeff", "\\ufeff"),
    ("\ud800", "\\ud800"), ("\ue000", "\\ue000"), ("\U000e0001", "\\U000e0001"), ("é\x1b", "é\\x1b"),
    ("a\udcff", "a\\xff"), ("\udc80", "\\x80"), ("\udd00", "\\udd00"), ("\udc7f", "\\udc7f"),
])
def test_control_sequences_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


@pytest.mark.parametrize(("name", "can"), [
    ("", True), ("/bin/a b", True), ("/b\x1b", True), ("/größe", True), ("/a\nb", False), ("/a\udcff", False),
])
def test_names_that_fit_in_a_command(name: str, can: bool) -> None:
    assert fits_in_command(name) is can


def test_every_unsafe_character_is_escaped() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        shown = printable(char)
        assert shown == char or (shown.isascii() and shown.isprintable() and shown.startswith("\\")), hex(code)
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert shown != char, hex(code)


def test_long_text_is_cut() -> None:
    assert printable("x" * 1000) == "x" * 1000
    assert printable("x" * 1001) == "x" * 1000 + "..."
    assert printable("ab\n" * 10, 4) == "ab\\x0aa..."


def test_result_is_one_line_that_can_be_encoded() -> None:
    shown = printable(HOSTILE)
    assert shown.splitlines() == [shown]
    shown.encode()
