from __future__ import annotations

import builtins
import re
from collections.abc import Mapping, Sequence

import pytest

from gdbext.render.style import Style

SGR = re.compile(r"\x1b\[[0-9;]*m")
KINDS = ("bad", "good", "lock", "name", "dim")


@pytest.mark.parametrize("kind", KINDS)
def test_without_colour_nothing_is_added(kind: str) -> None:
    style = Style()
    assert style.mark("text", kind) == "text"
    assert style.source("x = 'y'") == "x = 'y'"
    assert style.notice is None


@pytest.mark.parametrize("kind", KINDS)
def test_colour_is_switched_off_again(kind: str) -> None:
    marked = Style(True).mark("text", kind)
    assert SGR.sub("", marked) == "text"
    assert marked != "text"
    assert marked.endswith("\x1b[0m")


def test_kinds_differ() -> None:
    style = Style(True)
    assert len({style.mark("x", kind) for kind in KINDS}) == len(KINDS)


def test_source_is_highlighted_and_its_text_stays() -> None:
    pytest.importorskip("pygments", reason="pygments is optional")
    style = Style(True)
    shown = style.source("with lock: return self.value + 1  # 'x'")
    assert style.notice is None
    assert SGR.sub("", shown) == "with lock: return self.value + 1  # 'x'"
    assert shown != SGR.sub("", shown)
    assert "\n" not in shown


LINE = "with lock: return self.value + 1  # 'x'"


def bold_part(text: str) -> str:
    """The visible characters that a terminal shows bold because of `bold`, whatever else switches it."""
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
def test_a_part_of_a_source_line_is_bold(part: tuple[int, int], highlighted: bool) -> None:
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
def test_no_part(part: tuple[int, int]) -> None:
    style = Style(True)
    assert style.source(LINE, part) == style.source(LINE)


@pytest.mark.parametrize("error", [ImportError, SyntaxError, AttributeError])
def test_without_pygments_it_says_so_once(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
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
