from __future__ import annotations

import sys
import unicodedata

import pytest

from gdbext.render.escape import Safe, as_text, cleaned, concatenated, fits_in_command, joined, json_line, printable
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


@pytest.mark.slow
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


@pytest.mark.parametrize(("line", "expected"), [
    ("work", "work"), ("Größe", "Größe"), ("a\nb", "a\\x0ab"), ("a\r\tb", "a\\x0d\\x09b"),
    ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
    ("\x1b[01m\x1b[39;49;00m\x1b[22mx", "\x1b[01m\x1b[39;49;00m\x1b[22mx"),
    ("\x1b[m", "\\x1b[m"), ("\x1b[8mx", "\\x1b[8mx"), ("\x1b[31;8mx", "\\x1b[31;8mx"),
    ("\x1b[38;5;1mx", "\\x1b[38;5;1mx"),
    ("\x1b[31m\x1b[2Jx", "\x1b[31m\\x1b[2Jx"), ("\x1b[5mx", "\\x1b[5mx"), ("\x1b[31", "\\x1b[31"),
])
def test_line_of_a_text_keeps_only_colours(line: str, expected: str) -> None:
    assert as_text([line]) == f"{expected}\n"


def test_line_of_a_text_is_not_cut() -> None:
    assert as_text(["ä" * 5000, ""]) == "ä" * 5000 + "\n\n"


@pytest.mark.parametrize(("text", "expected"), [
    ("", ""), ("\n", "\n"), ("a", "a\n"), ("a\nb\n", "a\nb\n"), ("a\x1b[2J\n\n\x85", "a\\x1b[2J\n\n\\x85\n"),
])
def test_text_of_another_process_is_escaped_again(text: str, expected: str) -> None:
    assert cleaned(text) == expected
    assert cleaned(cleaned(text)) == expected


def test_sections_have_an_empty_line_between_them() -> None:
    assert joined(map(Safe, ["\na\n\n", "", "\n", "b\nc\n"])) == "a\n\nb\nc\n"
    assert joined([Safe(""), Safe("\n")]) == ""
    assert concatenated([Safe("a\n"), Safe("b\n")]) == "a\nb\n"


def test_json_is_one_line_in_ascii() -> None:
    assert json_line({"a": "\x1b\nä\udcff"}) == '{"a": "\\u001b\\n\\u00e4\\udcff"}\n'
