"""Answers of a cluster that may be hostile: of other types, with control characters, or no answers at all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gdbext.launcher.cluster.answers import checked_place, checked_snapshot
from gdbext.launcher.cluster.page import Process, Survey, merged, page
from gdbext.launcher.status import NO_ANSWER
from gdbext.model import Report, Thread
from gdbext.schema.write import document
from tests.support.fake_report import INFO

GOOD: dict[str, Any] = {
    "document": document(Report(INFO, threads=(Thread(1, 1, None, "t"),))), "text": "head\n\ntext\n",
    "dot": "digraph {}\n",
    "stopped": 0.5, "seconds": 1, "problem": None, "hint": None, "status": 1, "notes": ["note"],
    "source": [["a.py", 1, "x = 1"]], "source_notes": []}
PLACE: dict[str, Any] = {"host": "beta", "machine": "m", "python": "/p", "gdbext": None, "pid": 5}
SCHEDULER: dict[str, Any] = {
    **PLACE, "workers": {"tcp://b": {"peer": "p", "local": "l", "pid": None}},
    "clients": [{"peer": "p", "local": "l", "pid": 7, "name": "c", "futures": 2}]}
#: Values of every type that JSON and pickles have.
VALUES: tuple[Any, ...] = (
    None, True, -1, 1 << 70, float("nan"), float("inf"), "\x1b[2J", b"bytes", [], [1], {}, {"pid": "x"}, object())


def test_good_answers_remain() -> None:
    assert checked_snapshot(GOOD) == {**GOOD, "seconds": 1.0, "notes": ("note",), "source": (("a.py", 1, "x = 1"),),
                                      "source_notes": ()}
    assert checked_place(PLACE) == PLACE
    assert checked_place(SCHEDULER) == SCHEDULER


@pytest.mark.parametrize("answer", VALUES)
def test_anything_else_is_a_problem(answer: object) -> None:
    made = checked_snapshot(answer)
    assert (made["document"], made["status"]) == (None, NO_ANSWER)
    assert checked_place(answer) is None


def test_text_loses_its_control_characters() -> None:
    """They were printed as they came."""
    hostile = "a\x1b]0;title\x07\x9b2J\u202e\r"
    made = checked_snapshot({**GOOD, **dict.fromkeys(("text", "dot", "problem", "hint"), hostile), "notes": [hostile],
                             "source": [["a.py", 1, hostile]]})
    shown = (made["text"], made["dot"], made["problem"], made["hint"], *made["notes"], made["source"][0][2])
    assert all(text.replace("\n", "").isprintable() for text in shown)
    process = Process(("worker",), "tcp://b", host="beta", pid=5)
    process.take({**GOOD, "text": f"head\n\n{hostile}"})
    found = Survey("tcp://a", [process])
    assert "\x1b" not in process.text + page(found, merged(found))


@pytest.mark.parametrize("seed", range(5))
def test_each_member_may_be_anything(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        answer = {name: chance.choice(VALUES) if chance.random() < 0.3 else value for name, value in GOOD.items()}
        process = Process(("worker",), "tcp://b", host="beta", pid=5)
        process.take(answer)
        found = Survey("tcp://a", [process])
        assert "\x1b" not in page(found, merged(found))


@pytest.mark.parametrize("good", [PLACE, SCHEDULER])
def test_place_with_a_member_of_another_type_is_none(good: dict[str, Any]) -> None:
    for name in good:
        assert checked_place({**good, name: object()}) is None
    assert checked_place({**good, "pid": -1}) is None
    assert checked_place({**good, "clients": [{"peer": "p", "local": "l", "pid": 7, "name": "c"}]}) is None
