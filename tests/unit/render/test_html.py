from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest

from gdbext.model import Report
from gdbext.render.html import html_page
from tests.support.fake_page import Json, Page, asyncio, boxes, crash, look, overlapping, page, rows
from tests.support.fake_report import (
    HOSTILE,
    gil_deadlock,
    healthy,
    inferred_deadlock,
    orphaned,
    world_that_does_not_stop,
)

#: What would run, or break out of where it stands, if it were not escaped.
MARKUP = "</script></style></title><script>hacked()</script>\"><img src=x onerror='hacked()'>&lt;--><!--]]>"
REPORTS = [gil_deadlock(), world_that_does_not_stop(), inferred_deadlock(), orphaned(), healthy(), crash(),
           asyncio()]


def filled(part: Any, text: str, key: str = "") -> Any:
    """A document with the text in the place of every string, also of those that are ours; references still fit."""
    if isinstance(part, dict):
        return {name: filled(value, text, name) for name, value in part.items()}
    if isinstance(part, list):
        return [filled(value, text, key) for value in part]
    if not isinstance(part, str) or key == "language":
        return part
    return part + text if key in ("id", "lock", "tasks", "holders", "task_cycles") else text


@pytest.mark.parametrize("text", [HOSTILE, MARKUP, "\u05d0\u05d1\u0627" * 400, "a" * 5000, "e" + "\u0301" * 3000],
                         ids=["control", "markup", "right-to-left", "long", "piled-up"])
@pytest.mark.parametrize("report", REPORTS)
def test_everything_is_escaped(report: Report, text: str) -> None:
    made = filled(look(report, problem="x", hint="x"), text)
    raw = html_page([made, {**made, "document": None}], text, [
        {"verdict": text, "count": 2, "members": [text, text], "representative": text}], [
        {"waiter": text, "what": text, "holder": text, "deadlock": True}])
    assert raw.isascii()
    assert [char for char in raw if not char.isprintable() and char != "\n"] == []
    assert len(raw) < 1_000_000
    found = Page(raw)
    found.check()
    assert [tag for tag, _ in found.elements].count("script") == 1
    if text == MARKUP:
        # nothing but text
        assert text in found.text("title")
        assert text in found.text()
        assert raw.count("<script>hacked") == raw.count("<img") == 0


def test_policy_allows_the_style_and_the_script_and_nothing_else() -> None:
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
        # nothing that would fetch, and nothing that would make markup of text
        assert not re.search(r"url\(|@import|://|innerHTML|insertAdjacent|document\.write|eval|fetch|XMLHttp", inside)
    # the policy stands before what it is about
    assert raw.index("Content-Security-Policy") < raw.index("<style>")
    assert raw.index("charset") < 1024


# -- several looks --------------------------------------------------------------------------------------------

def several() -> list[Json]:
    return [look(gil_deadlock(), "scheduler <b>", stopped=0.25), look(healthy(), "worker", parent="scheduler <b>"),
            look(crash(), "task", parent="worker"),
            {"target": "core.9", "document": None, "problem": "not a core", "hint": "take another", "stopped": None}]


def test_several_looks_have_an_index() -> None:
    made = page(*several())
    text = made.text("nav")
    assert text.startswith("4 targets")
    assert "scheduler <b>deadlock of 2 threads: rwlock, gil50.25 s" in text
    assert "workerno deadlock3" in text
    assert "taskSIGSEGV: read 8 bytes at 0x18: a member of a null pointer" in text
    assert "core.9could not be looked at: not a core" in text
    assert [attributes["class"] for tag, attributes in made.elements if attributes.get("scope") == "row"
            and "class" in attributes] == ["depth0", "depth1", "depth2", "depth0"]
    assert made.having(class_="look") == ["details"] * 4
    assert [("open" in row) for row in rows(made, "look")] == [True, False, False, False]
    assert "not a coretake another" in made.text("main")


def test_classes_lead_to_their_representatives() -> None:
    made = page(*several(), classes=[
        {"verdict": "deadlock: GIL, rwlock", "count": 700, "members": ["scheduler <b>", "other <i>"],
         "representative": "scheduler <b>"},
        {"verdict": "not among the looks", "count": 1, "members": ["x"], "representative": "x"}])
    text = made.text("main")
    assert text.index("2 classes") < text.index("4 targets")
    assert "700deadlock: GIL, rwlockscheduler <b>2 membersscheduler <b>other <i>" in text
    assert "1 class" in page(*several(), classes=[
        {"verdict": "v", "count": 1, "members": [], "representative": "worker"}]).text("main")


def test_waits_between_looks_are_drawn() -> None:
    between = [{"waiter": "scheduler <b>", "what": "pipe:[4711]", "holder": "worker", "deadlock": True},
               {"waiter": "worker", "what": "pipe:[4712]", "holder": "scheduler <b>", "deadlock": True},
               {"waiter": "task", "what": "pipe:[4713]", "holder": "a process elsewhere", "deadlock": False},
               {"waiter": "task", "what": "a child", "holder": None, "deadlock": False}]
    made = page(*several(), between=between)
    text = made.text("main")
    assert text.startswith("Deadlock across targets")
    assert "scheduler <b> waits for pipe:[4711] of worker (deadlock)" in text
    assert "task waits for a child" in text
    found = boxes(made)
    assert {found[f"#look{index}"][0] for index in (0, 1)} == {"node thread bad"}
    # in a drawing of their own
    assert overlapping({anchor: box for anchor, box in found.items() if not re.match("#[tl][0-9]", anchor)}) == []
    assert page(*several(), between=between[2:]).text("main").startswith("Across targets")


def test_nothing_at_all() -> None:
    assert "0 targets" in page().text()
    assert "It could not be looked at" in page({"target": "x", "document": None, "problem": None}).text()
