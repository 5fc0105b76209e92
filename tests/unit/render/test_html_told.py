from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.model import Report
from gdbext.render.html_told import Budget, Group, Told, telling_frames
from tests.support.fake_page import Json, asyncio, crash, look, pool, ring
from tests.support.fake_report import (
    COUNTED,
    RWLOCK,
    gil_deadlock,
    healthy,
    inferred_deadlock,
    orphaned,
    standstill,
    without_verdict,
)


def told(report: Report) -> Told:
    return Told(look(report, small=len(report.threads) < 10))


@pytest.mark.parametrize(("report", "states"), [
    (gil_deadlock(), {1: "deadlocked", 2: "deadlocked", 3: "stuck", 4: "blocked", 5: "unread"}),
    (healthy(), {1: "holder", 2: "waiting", 4: "blocked"}),
    (orphaned(), {1: "deadlocked"}),
    (replace(inferred_deadlock(), deadlocks=()), {1: "holder", 2: "holder"}),
    # 2 holds what others wait for, too
    (crash(), {1: "crashed", 2: "suspect", 3: "waiting", 4: "blocked", 5: "unread"}),
])
def test_states_and_their_order(report: Report, states: dict[int, str]) -> None:
    assert list(told(report).states.items()) == list(states.items())


def test_state_of_a_waiter_for_an_event_nobody_holds_is_event() -> None:
    made = look(healthy())
    (lock,) = made["document"]["locks"]
    lock["kind"] = "condvar"
    assert Told(made).states[2] == "waiting"
    lock["holders"] = []
    assert Told(made).states == {1: "running", 4: "blocked", 2: "event"}
    lock["kind"], lock["state"] = "py-event", "result is pending"
    assert Told(made).states[2] == "waiting"


def test_state_of_a_thread_that_may_be_blocked() -> None:
    made = look(healthy())
    made["document"]["threads"][-1].update(status="unknown", waits=None, blocked_on="was in write")
    assert list(Told(made).states.values())[-1] == "unsure"


def test_those_with_the_same_stack_are_a_group() -> None:
    groups = list(told(pool(300)).groups())
    assert [(len(group.members), group.state) for group in groups] == [
        (1, "deadlocked"), (1, "deadlocked"), (1, "stuck"), (300, "stuck"), (1, "blocked"), (1, "unread")]
    # among so many nothing is open
    assert not any(group.open for group in groups)


def test_the_first_entries_that_tell_most_are_open() -> None:
    assert list(told(gil_deadlock()).groups())[:3] == [
        Group([1], "deadlocked", True), Group([2], "deadlocked", True), Group([3], "stuck", False)]
    assert [group.open for group in Told(ring(6)).groups()] == [True] * 4 + [False] * 2
    assert not any(group.open for group in Told(ring(21)).groups())


@pytest.mark.parametrize(("report", "verdict", "no_deadlock"), [
    (gil_deadlock(), ("bad", "deadlock of 2 threads: rwlock, gil"), None),
    (standstill(), ("bad", "standstill of 2 threads: thread-exit, py-condition"), None),
    (healthy(), ("good", "no deadlock"), "good"),
    (without_verdict(),
     ("doubt", "whether there is a deadlock cannot be told: PyPy in libpypy3.9-c.so is not decoded"), "doubt"),
    (asyncio(), ("bad", "circle of 2 tasks"), "plain"),
])
def test_verdict(report: Report, verdict: tuple[str, str], no_deadlock: str | None) -> None:
    made = told(report)
    assert made.verdict() == verdict
    if no_deadlock is not None:
        assert made.no_deadlock()[0] == no_deadlock


def test_verdict_without_a_document() -> None:
    made = Told({"target": "core.9", "document": None})
    assert made.verdict() == ("doubt", "could not be looked at: no reason is known")
    assert (made.seen, made.states, list(made.groups())) == (False, {}, [])


def test_links_of_those_that_wait_and_hold() -> None:
    waits = told(gil_deadlock()).waits()
    # locks in the order of the deadlock
    assert list(waits.locks.items()) == [(RWLOCK, True), ("gil:0", True)]
    links = {tuple(members): [tuple(link) for link in links] for members, links in waits.threads}
    assert links == {
        (1,): [(RWLOCK, "waits to write", "waits", True), ("gil:0", "held by", "recorded", True)],
        (2,): [(RWLOCK, "held by", "recorded", True), ("gil:0", "waits", "waits", True)],
        (3,): [(RWLOCK, "waits to read", "waits", False)]}


def test_many_that_wait_alike_are_one_node() -> None:
    assert [len(members) for members, _ in told(pool(500)).waits().threads] == [1, 1, 501]
    # two are few enough to stand for themselves
    assert [len(members) for members, _ in told(pool(1)).waits().threads] == [1, 1, 1, 1]


def test_candidates_are_no_holders() -> None:
    report = inferred_deadlock()
    locks = tuple(replace(lock, holders=(), candidates=(1, 2)) if lock.id == COUNTED else lock for lock in report.locks)
    waits = told(replace(report, locks=locks, deadlocks=())).waits()
    assert [link.kind for _, links in waits.threads for link in links if link.lock == COUNTED].count("candidate") == 2
    assert not any(waits.locks.values())


def test_telling_frames() -> None:
    def frame(language: str, function: str | None = "f") -> Json:
        return {"language": language, "function": function}

    assert telling_frames([frame("native", None), frame("native"), frame("python"), frame("native")]) == [1, 2]
    # six of either, nothing of what called the outermost of Python
    stack = [*[frame("native")] * 8, *[frame("python")] * 8, frame("native")]
    assert telling_frames(stack) == [*range(6), *range(8, 14)]
    assert telling_frames([frame("native"), frame("native", None)]) == [0]
    assert telling_frames([]) == []


def test_stacks_become_shorter_as_the_page_grows() -> None:
    budget = Budget()
    assert [budget.frames(count) for count in (0, 9, 200)] == [0, 9, 200]
    budget.spend(700_000)
    # what would be no shorter with a line that says so stays whole
    assert [budget.frames(count) for count in (9, 10, 200)] == [9, 8, 8]
    budget.spend(700_000)
    assert [budget.frames(count) for count in (4, 5, 200)] == [4, 3, 3]
