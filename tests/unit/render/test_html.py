from __future__ import annotations

import base64
import dataclasses
import hashlib
import importlib
import re
import sys
from typing import Any

import pytest
from markupsafe import Markup

from gdbext.errors import UsageError
from gdbext.model import Report
from gdbext.model.reasons import Reason, because
from gdbext.narrate.words import Foreign, Marked
from gdbext.render.html import Budget, View, _environment, html_page
from gdbext.render.shown import RankColumn, Shown, ShownJob
from tests.support.fake_page import Page, asyncio, boxes, crash, look, overlapping, page, pool, ring, rows
from tests.support.fake_report import (
    HOSTILE,
    gil_deadlock,
    healthy,
    inferred_deadlock,
    orphaned,
    world_that_does_not_stop,
)

#: Text that would run, or break out of its element, if it were not escaped.
MARKUP = "</script></style></title><script>hacked()</script>\"><img src=x onerror='hacked()'>&lt;--><!--]]>"
REPORTS = [gil_deadlock(), world_that_does_not_stop(), inferred_deadlock(), orphaned(), healthy(), crash(),
           asyncio()]


#: Fields in which `read_document` accepts only known strings.
OURS = {"evidence", "orphan_evidence", "mode", "wait_for"}


def filled(part: Any, text: str) -> Any:
    """A report with the text in every string, including those of gdbext; references still match."""
    if isinstance(part, tuple):
        return type(part)(*[filled(each, text) for each in part]) if hasattr(part, "_fields") else tuple(
            filled(each, text) for each in part)
    if isinstance(part, str):
        return text
    if isinstance(part, Reason):  # `read_document` accepts only known codes
        return because("text", text=text)
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return {key: filled(value, text) for key, value in part.items()} if isinstance(part, dict) else part
    changes = {}
    for each in dataclasses.fields(part):
        value = getattr(part, each.name)
        if each.name not in OURS:
            is_reference = each.name in ("id", "lock") and isinstance(value, str)
            changes[each.name] = value + text if is_reference else filled(value, text)
    return dataclasses.replace(part, **changes)


@pytest.mark.parametrize("text", [HOSTILE, MARKUP, "\u05d0\u05d1\u0627" * 400, "a" * 5000, "e" + "\u0301" * 3000],
                         ids=["control", "markup", "right-to-left", "long", "piled-up"])
@pytest.mark.parametrize("report", REPORTS)
def test_everything_is_escaped(report: Report, text: str) -> None:
    made = Shown(text, filled(report, text), text, text)
    raw = html_page([made, dataclasses.replace(made, report=None)], text, [
        {"verdict": text, "count": 2, "members": [text, text], "representative": text}], [
        {"waiter": text, "what": text, "holder": text, "deadlock": True}], ShownJob("bad", text, text, text, (
            RankColumn(text, text, text, text, text, text, text, True, True, text),)))
    assert raw.isascii()
    assert [char for char in raw if not char.isprintable() and char != "\n"] == []
    assert len(raw) < 1_000_000
    found = Page(raw)
    found.check()
    assert [tag for tag, _ in found.elements].count("script") == 1
    if text == MARKUP:
        # text only
        assert text in found.text("title")
        assert text in found.text()
        assert raw.count("<script>hacked") == raw.count("<img") == 0


def test_policy_allows_only_the_style_and_the_script() -> None:
    raw = html_page([look(gil_deadlock())], "x")
    (policy,) = [attributes["content"] for tag, attributes in Page(raw).elements
                 if attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts.keys() == {"default-src", "base-uri", "form-action", "style-src", "script-src"}
    assert {parts[name] for name in ("default-src", "base-uri", "form-action")} == {"'none'"}
    for name in ("style", "script"):
        (inside,) = re.findall(f"<{name}>(.*?)</{name}>", raw, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert parts[f"{name}-src"] == f"'sha256-{digest}'"
        # nothing fetches, and nothing turns text into markup
        assert not re.search(r"url\(|@import|://|innerHTML|insertAdjacent|document\.write|eval|fetch|XMLHttp", inside)
    # the policy comes before the style and the script
    assert raw.index("Content-Security-Policy") < raw.index("<style>")
    assert raw.index("charset") < 1024


# -- several targets ------------------------------------------------------------------------------------------

def several() -> list[Shown]:
    return [look(gil_deadlock(), "scheduler <b>", stopped=0.25), look(healthy(), "worker", parent="scheduler <b>"),
            look(crash(), "task", parent="worker"),
            Shown("core.9", None, "not a core", "take another")]


def test_several_targets_have_an_index() -> None:
    made = page(*several())
    text = made.text("nav")
    assert text.startswith("4 targets")
    assert "scheduler <b>deadlock of 2 threads: the GIL, pthread rwlock in libdrv.so50.25 s" in text
    assert "workerno deadlock found; thread 1 \"MainThread\" runs in update job.py:41; 1 thread waits for it3" in text
    assert "taskSIGSEGV: read 8 bytes at 0x18: a member of a null pointer" in text
    assert "core.9could not be inspected: not a core" in text
    assert [attributes["class"] for tag, attributes in made.elements if attributes.get("scope") == "row"
            and "class" in attributes] == ["depth0", "depth1", "depth2", "depth0"]
    assert made.having(class_="target") == ["details"] * 4
    assert [("open" in row) for row in rows(made, "target")] == [True, False, False, False]
    assert "not a coretake another" in made.text("main")


def test_deadlock_with_other_processes_is_the_answer() -> None:
    """In place of what the report of the process alone says."""
    alone, member = several()[1], dataclasses.replace(several()[1], deadlocked_with=(7, 9))
    assert "COMPUTING" in page(alone).text()
    text = page(member, alone).text("nav")
    assert "workerDEADLOCK with processes 7, 9" in text
    made = page(member).text()
    assert "COMPUTING" not in made
    assert "MainThread" in made


def test_classes_link_to_their_representatives() -> None:
    made = page(*several(), classes=[
        {"verdict": "deadlock: GIL, rwlock", "count": 700, "members": ["scheduler <b>", "other <i>"],
         "representative": "scheduler <b>"},
        {"verdict": "not among the targets", "count": 1, "members": ["x"], "representative": "x"}])
    text = made.text("main")
    assert text.index("2 classes") < text.index("4 targets")
    assert "700deadlock: GIL, rwlockscheduler <b>2 membersscheduler <b>other <i>" in text
    assert "1 class" in page(*several(), classes=[
        {"verdict": "v", "count": 1, "members": [], "representative": "worker"}]).text("main")


def test_waits_between_targets_are_drawn() -> None:
    between = [{"waiter": "scheduler <b>", "what": "to read pipe:[4711]", "holder": "worker", "deadlock": True},
               {"waiter": "worker", "what": "to read pipe:[4712]", "holder": "scheduler <b>", "deadlock": True},
               {"waiter": "task", "what": "to read pipe:[4713]", "holder": "a process elsewhere", "deadlock": False},
               {"waiter": "task", "what": "for the end of process 9", "holder": None, "deadlock": False}]
    made = page(*several(), between=between)
    text = made.text("main")
    assert text.startswith("Deadlock across targets")
    assert "scheduler <b> waits to read pipe:[4711]; worker can end that (deadlock)" in text
    assert "task waits for the end of process 9" in text
    found = boxes(made)
    assert {found[f"#target{index}"][0] for index in (0, 1)} == {"node thread bad"}
    # in a separate drawing
    assert overlapping({anchor: box for anchor, box in found.items() if not re.match("#[tl][0-9]", anchor)}) == []
    assert page(*several(), between=between[2:]).text("main").startswith("Across targets")


def test_page_without_a_report() -> None:
    assert "0 targets" in page().text()
    assert "It could not be inspected" in page(Shown("x", None)).text()


# -- markup ---------------------------------------------------------------------------------------------------

def test_words_are_escaped_and_foreign_text_is_isolated() -> None:
    view = View(look(gil_deadlock()), 0)
    assert view.say(("<a> & \"'", Foreign("\u05d0\u202e<"), "\x1b")) == (
        "&lt;a&gt; &amp; &#34;&#39;<bdi>\u05d0\\u202e&lt;</bdi>\\x1b")
    assert view.say((Foreign("x" * 100),)) == f"<bdi>{'x' * 80}...</bdi>"
    assert len(view.say(("x" * 5000,))) == 1003
    assert view.say((Marked("why", ("<",)),)) == '<span class="why">&lt;</span>'


def test_words_link_to_threads_and_locks_of_the_page() -> None:
    view = View(look(gil_deadlock()), 3)
    thread, lock = Marked("thread", ("thread 1",), 1), Marked("lock", ("the GIL",), "gil:0")
    assert view.say((thread, lock)) == '<a href="#t3-1">thread 1</a><a href="#l3-2"><b class="lock">the GIL</b></a>'
    assert view.say((thread, lock), link=False) == 'thread 1<b class="lock">the GIL</b>'
    # no nested links, and no links to missing elements
    inside = Marked("lock", ("the end of ", thread), "gil:0")
    assert view.say((inside,)) == '<a href="#l3-2"><b class="lock">the end of thread 1</b></a>'
    assert view.say((Marked("thread", ("thread 9",), 9), Marked("lock", ("x",), "mutex:0x9"))) == (
        'thread 9<b class="lock">x</b>')


def test_templates_escape_values() -> None:
    made = _environment().from_string("<i a=\"{{ text }}\">\n  {{ text }}\n  {{ text|cut(2) }} {{ safe }}</i>")
    assert made.render(text="<\"\x1b\u202e'>", safe=Markup("<b>")) == (
        '<i a="&lt;&#34;\\x1b\\u202e&#39;&gt;">&lt;&#34;\\x1b\\u202e&#39;&gt;&lt;&#34;... <b></i>')


def test_missing_jinja_raises_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "gdbext.render.html")
    with pytest.raises(UsageError, match="a page of HTML needs Jinja2") as raised:
        importlib.import_module("gdbext.render.html")
    assert raised.value.hint == "pip install jinja2"


def test_stacks_become_shorter_as_the_page_grows() -> None:
    budget = Budget()
    assert [budget.frames(count) for count in (0, 9, 200)] == [0, 9, 200]
    budget.spend("x" * 700_000)
    # a stack stays whole if the note about omitted frames would take as many lines
    assert [budget.frames(count) for count in (9, 10, 200)] == [9, 8, 8]
    budget.spend("x" * 700_000)
    assert [budget.frames(count) for count in (4, 5, 200)] == [4, 3, 3]


def test_first_threads_of_a_deadlock_are_open() -> None:
    def opened(report: Report) -> list[bool]:
        return [opened for _, opened in View(look(report, small=False), 0).groups()]

    assert opened(gil_deadlock())[:3] == [True, True, False]
    assert opened(ring(6)) == [True] * 4 + [False] * 2
    assert not any(opened(ring(21)))
    # with so many threads none is open
    assert not any(opened(pool(300)))
