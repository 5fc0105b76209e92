from __future__ import annotations

import pytest

from gdbext.render.html_markup import Markup, join, listed, named, table, tag
from gdbext.render.html_text import frame_name, frame_place, name_range, plural, ranges, short_place, threads_of


def test_text_is_escaped_and_markup_is_not() -> None:
    assert join(["<a> & \"'", Markup("<b>"), "\x1b"]) == "&lt;a&gt; &amp; &quot;&#x27;<b>\\x1b"
    assert isinstance(join(["<"]), Markup)
    # what is put together from markup as text is text again
    assert join([Markup("<b>") + "x"]) == "&lt;b&gt;x"
    assert len(join(["x" * 5000])) == 1003


def test_attributes() -> None:
    assert tag("a", "x", class_="c", aria_label="<\"'>", hidden=True, open=False, id=None, data_look=0) == (
        '<a class="c" aria-label="&lt;&quot;&#x27;&gt;" hidden data-look="0">x</a>')
    assert tag("input", type="search", void=True) == '<input type="search">'
    assert tag("a", href="x" * 5000) == f'<a href="{"x" * 1000}..."></a>'


def test_names_and_lists() -> None:
    assert named("\u05d0\u202e<") == "<bdi>\u05d0\\u202e&lt;</bdi>"
    assert named("x" * 100) == f"<bdi>{'x' * 80}...</bdi>"
    assert listed(["<", Markup("<b>"), "c"]) == "&lt;, <b>, c"
    assert listed([]) == ""


def test_table() -> None:
    assert table(["A", "B"], [tag("tr", tag("td", "1"), tag("td", "2"))], ["B"]) == (
        '<div class="wide"><table><thead><tr><th scope="col">A</th><th scope="col" class="number">B</th></tr></thead>'
        "<tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>")


@pytest.mark.parametrize(("numbers", "text"), [
    ([1], "1"), ([2, 1], "1, 2"), ([3, 1, 2], "1-3"), ([1, 2, 3, 7, 9, 10], "1-3, 7, 9, 10"),
    ([*range(0, 60, 2)], ", ".join(str(number) for number in range(0, 40, 2)) + " and 10 more"),
])
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


def test_numbers_of_threads() -> None:
    assert [threads_of([5]), threads_of([5, 7]), threads_of([5, 6, 7, 8])] == [
        "thread 5", "threads 5, 7", "4 threads (5-8)"]
    assert [plural(1, "lock"), plural(0, "lock"), plural(2000, "lock")] == ["1 lock", "0 locks", "2,000 locks"]


def test_names_that_differ_in_a_number() -> None:
    assert name_range(["w-1", "w-2", None, "w-2", "w-30"]) == "w-1 ... w-30"
    assert name_range(["w-1", "w-2", "main"]) == "w-1, w-2, main"
    assert name_range(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more names"
    assert name_range([None]) == ""


def test_frames() -> None:
    python = {"language": "python", "function": "f", "qualified_name": "C.f", "file": "/a/b.py", "line": None}
    native = {"language": "native", "function": "g", "pc": "0x1", "module": "libdrv.so", "file": "g.c", "line": 3}
    bare = {**native, "function": None, "module": None, "file": None}
    assert [frame_name(frame) for frame in (python, native, bare)] == ["C.f", "g()", "0x1"]
    assert [frame_place(frame) for frame in (python, native, bare)] == ["/a/b.py:?", "libdrv.so g.c:3", ""]
    assert short_place([bare, native, {**python, "line": 4}]) == "f b.py:4"
    assert short_place([bare, native]) == "g()"
    assert short_place([bare]) is None
