from __future__ import annotations

import builtins
import re
from collections.abc import Mapping, Sequence

import pytest

from gdbext.render.escape import Safe
from gdbext.render.style import Style, columns, excerpt, rows, shorten_path, wants_colour

SGR = re.compile(r"\x1b\[[0-9;]*m")
KINDS = ("bad", "good", "lock", "name", "dim")


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_unchanged_without_colour(kind: str) -> None:
    style = Style()
    assert style.mark("text", kind) == "text"
    assert style.source("x = 'y'") == "x = 'y'"
    assert style.notice is None


@pytest.mark.parametrize(("environment", "terminal", "wanted"), [
    ({"TERM": "xterm"}, True, True), ({"TERM": "xterm"}, False, False), ({"TERM": "dumb"}, True, False),
    ({}, True, False),
    ({"TERM": "xterm", "NO_COLOR": "1"}, True, False), ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
    ({"FORCE_COLOR": "1"}, False, True), ({"FORCE_COLOR": ""}, False, False), ({"FORCE_COLOR": "0"}, False, True),
    ({"TERM": "xterm", "FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
])
def test_environment_decides_about_colour(environment: Mapping[str, str], terminal: bool, wanted: bool,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(terminal) is wanted


@pytest.mark.parametrize(("text", "width", "expected"), [
    ("", 10, 0), ("a\n", 10, 1), ("a\n\nb", 10, 3), ("0123456789\n", 10, 1), ("01234567890\n", 10, 2),
    ("\x1b[1;31m0123456789\x1b[0m\n", 10, 1), ("\u4e00" * 6, 10, 2),
])
def test_rows_of_a_terminal(text: str, width: int, expected: int) -> None:
    assert rows(text, width) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_colour_is_switched_off_again(kind: str) -> None:
    marked = Style(True).mark("text", kind)
    assert SGR.sub("", marked) == "text"
    assert marked != "text"
    assert marked.endswith("\x1b[0m")


def test_kinds_have_different_colours() -> None:
    style = Style(True)
    assert len({style.mark("x", kind) for kind in KINDS}) == len(KINDS)


def test_highlighted_source_keeps_its_text() -> None:
    pytest.importorskip("pygments", reason="pygments is optional")
    style = Style(True)
    shown = style.source("with lock: return self.value + 1  # 'x'")
    assert style.notice is None
    assert SGR.sub("", shown) == "with lock: return self.value + 1  # 'x'"
    assert shown != SGR.sub("", shown)
    assert "\n" not in shown


LINE = "with lock: return self.value + 1  # 'x'"


def bold_part(text: str) -> str:
    """The visible characters that a terminal shows in bold."""
    shown, bold = "", False
    for part in re.split(r"(\x1b\[[0-9;]*m)", text):
        if part.startswith("\x1b"):
            codes = part[2:-1].split(";")
            bold = (bold or codes == ["1"]) and not {"0", "00", "22", ""} & set(codes)
        elif bold:
            shown += part
    return shown


@pytest.mark.parametrize("highlighted", [True, False])
@pytest.mark.parametrize("part", [(0, 4), (11, 28), (18, 22), (0, len(LINE)), (35, 1000), (5, 6)])
def test_part_of_a_source_line_is_bold(part: tuple[int, int], highlighted: bool) -> None:
    if highlighted:
        pytest.importorskip("pygments", reason="pygments is optional")
    style = Style(True)
    if not highlighted:
        style._highlight = None
    shown = style.source(LINE, part)
    assert SGR.sub("", shown) == LINE
    assert bold_part(shown) == LINE[slice(*part)]


def test_nothing_is_bold_without_colour() -> None:
    assert Style().source(LINE, (0, 4)) == LINE


@pytest.mark.parametrize("part", [(4, 4), (1000, 1001)])
def test_source_line_without_part_is_not_bold(part: tuple[int, int]) -> None:
    style = Style(True)
    assert style.source(LINE, part) == style.source(LINE)


@pytest.mark.parametrize("error", [ImportError, SyntaxError, AttributeError])
def test_missing_pygments_is_one_notice(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    real = builtins.__import__

    def refuse(name: str, globals: Mapping[str, object] | None = None, locals: Mapping[str, object] | None = None,
               fromlist: Sequence[str] | None = (), level: int = 0) -> object:
        if name.startswith("pygments"):
            raise error(name)
        return real(name, globals, locals, fromlist or (), level)

    monkeypatch.setattr(builtins, "__import__", refuse)
    style = Style(True)
    assert style.source("x = 1") == "x = 1"
    assert style.notice is not None
    assert error.__name__ in style.notice
    assert SGR.sub("", style.mark("text", "bad")) == "text"


# -- lines that fit in -----------------------------------------------------------------------------------------

def test_lines_are_not_broken_without_a_width() -> None:
    assert Style().wrap(Safe("word " * 100)) == "word " * 100


@pytest.mark.parametrize(("width", "text", "expected"), [
    (40, "Thread 1 waits for rwlock 0x5591e0c0 in libdrv.so to write", [
        "Thread 1 waits for rwlock 0x5591e0c0 in", "    libdrv.so to write"]),
    (40, "  holds the GIL", ["  holds the GIL"]),
    (40, "    held by thread 12, thread 13 and thread 4711", [
        "    held by thread 12, thread 13 and", "        thread 4711"]),
    # lines have a minimum width, and words are not broken
    (5, "a" * 30 + " " + "b" * 30, ["a" * 30, "    " + "b" * 30]),
    (40, "x" * 60, ["x" * 60]),
    (40, "  " + "x" * 60 + " y", ["  " + "x" * 60, "      y"]),
    # wide characters take two columns
    (40, "日" * 15 + " " + "本" * 10, ["日" * 15, "    " + "本" * 10]),
])
def test_long_lines_are_broken_at_spaces(width: int, text: str, expected: list[str]) -> None:
    assert Style(width=width).wrap(Safe(text)).split("\n") == expected


def test_only_long_lines_are_broken() -> None:
    text = "short\n\n" + "long " * 10 + "\nshort again\n"
    assert Style(width=40).wrap(Safe(text)) == "short\n\n" + "long " * 7 + "long\n    long long\nshort again\n"


def test_colour_codes_take_no_columns() -> None:
    style = Style(True, 40)
    fits = style.mark("Thread 1 (LWP 1) waits for a mutex", "name") + " 0x10"
    assert style.wrap(Safe(fits)) == fits
    longer = SGR.sub("", style.wrap(Safe(fits + " of thread 2")))
    assert longer.split("\n") == ["Thread 1 (LWP 1) waits for a mutex 0x10", "    of thread 2"]


@pytest.mark.parametrize(("path", "room", "expected"), [
    ("/app/pkg/job.py", 15, "/app/pkg/job.py"),
    ("/app/pkg/job.py", 14, ".../pkg/job.py"),
    ("/app/pkg/job.py", 13, ".../job.py"),
    ("/app/pkg/job.py", 1, ".../job.py"),
    ("/usr/lib/python3/dist-packages/pkg/job.py", 30, ".../dist-packages/pkg/job.py"),
    # a shortened path would not be shorter
    ("/a/job.py", 3, "/a/job.py"),
    ("job.py", 3, "job.py"),
    ("<frozen importlib._bootstrap>", 10, "<frozen importlib._bootstrap>"),
])
def test_shorten_path_omits_leading_folders(path: str, room: int, expected: str) -> None:
    assert shorten_path(path, room) == expected


ALPHABET = "abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(("room", "part", "expected", "marked"), [
    (26, None, ALPHABET, None),
    (26, (24, 26), ALPHABET, "yz"),
    (20, None, "abcdefghijklmnopq...", None),
    (20, (2, 5), "abcdefghijklmnopq...", "cde"),
    # the part is visible, with its surroundings
    (20, (16, 19), "...jklmnopqrstuvwxyz", "qrs"),
    (15, (11, 14), "...ijklmnopq...", "lmn"),
    (20, (24, 26), "...jklmnopqrstuvwxyz", "yz"),
    # a part that is too long shows its beginning
    (15, (6, 26), "...ghijklmno...", "ghijklmno"),
    (15, (2, 26), "abcdefghijkl...", "cdefghijkl"),
])
def test_excerpt_contains_the_part(room: int, part: tuple[int, int] | None, expected: str,
                                                    marked: str | None) -> None:
    text, at = excerpt(ALPHABET, room, part)
    assert text == expected
    assert (text[slice(*at)] if at is not None else None) == marked


@pytest.mark.parametrize("text", ["日本語" * 30, "e\u0301" * 60, "x" * 50 + "日" * 50])
def test_excerpt_fills_the_columns(text: str) -> None:
    for room in range(15, 60):
        for start in range(0, len(text) - 2, 7):
            shown, part = excerpt(text, room, (start, start + 2))
            assert columns(shown) <= room
            assert part is not None
            assert shown[slice(*part)] == text[start:start + 2]
