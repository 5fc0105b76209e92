from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.model import EXCLUSIVE, RECORDED, Hold, Holder, Lock, Report, Thread, Wait, Waiter
from gdbext.narrate.names import Facts
from gdbext.narrate.threads import doing, groups, holdings, states
from gdbext.narrate.words import Foreign, Marked, Words, plain
from tests.support.fake_page import crash, pool
from tests.support.fake_report import (
    COUNTED,
    HOSTILE,
    gil_deadlock,
    healthy,
    hostile,
    inferred_deadlock,
    orphaned,
    world_that_does_not_stop,
)
from tests.support.reasons import text


def with_lock(report: Report, **changes: object) -> Report:
    (lock,) = report.locks
    return replace(report, locks=(replace(lock, **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(("report", "expected"), [
    (gil_deadlock(), {1: "deadlocked", 2: "deadlocked", 3: "stuck", 4: "blocked", 5: "unread"}),
    (healthy(), {1: "holder", 2: "waiting", 4: "blocked"}),
    (orphaned(), {1: "deadlocked"}),
    (replace(inferred_deadlock(), deadlocks=()), {1: "holder", 2: "holder"}),
    # thread 2 also holds a lock that others wait for
    (crash(), {1: "crashed", 2: "suspect", 3: "waiting", 4: "blocked", 5: "unread"}),
])
def test_states_and_their_order(report: Report, expected: dict[int, str]) -> None:
    assert list(states(Facts(report)).items()) == list(expected.items())


def test_state_of_a_waiter_for_an_event_without_holder_is_event() -> None:
    report = with_lock(healthy(), kind="condvar")
    assert states(Facts(report))[2] == "waiting"
    report = with_lock(report, holders=())
    assert list(states(Facts(report)).items()) == [(1, "running"), (4, "blocked"), (2, "event")]
    report = with_lock(report, kind="py-event", state="result is pending")
    assert states(Facts(report))[2] == "waiting"


def test_state_of_a_thread_that_may_be_blocked() -> None:
    report = healthy()
    last = replace(report.threads[-1], status="unknown", waits=None, blocked_on=text("was in write"))
    assert list(states(Facts(replace(report, threads=(*report.threads[:-1], last)))).values())[-1] == "unsure"


def test_threads_with_the_same_stack_form_a_group() -> None:
    found = groups(Facts(pool(300)), by_state=True)
    assert [(len(group.members), group.state) for group in found] == [
        (1, "deadlocked"), (1, "deadlocked"), (1, "stuck"), (300, "stuck"), (1, "blocked"), (1, "unread")]
    assert len(groups(Facts(pool(300)), each=True)) == 305


def foreign(words: Words) -> list[str]:
    """The words that are marked as text from the target."""
    return [text for word in words for text in (
        [word.text] if isinstance(word, Foreign) else foreign(word.words) if isinstance(word, Marked) else [])]


@pytest.mark.parametrize("build", [gil_deadlock, inferred_deadlock, orphaned, world_that_does_not_stop])
def test_text_from_the_target_is_foreign(build: object) -> None:
    assert callable(build)
    facts = Facts(hostile(build()))
    for thread in facts.threads.values():
        for words in (doing(facts, thread), *holdings(facts, thread)):
            assert "".join(foreign(words)).count("\x1b") == plain(words).count("\x1b")
    assert any(HOSTILE in foreign(doing(facts, thread)) for thread in facts.threads.values())


def test_wait_for_a_lock_that_the_report_lacks() -> None:
    thread = Thread(1, 1, 1, None, waits=Wait("mutex:0x9", EXCLUSIVE, True),
                    holds=(Hold("mutex:0x8", EXCLUSIVE, RECORDED),))
    facts = Facts(replace(healthy(), threads=(thread,), locks=()))
    assert plain(doing(facts, thread)) == "waits for mutex:0x9, with a timeout"
    assert [plain(words) for words in holdings(facts, thread)] == ["holds mutex:0x8"]


def test_thread_that_has_not_arrived_does_not_hold_the_barrier() -> None:
    report = inferred_deadlock()
    locks = tuple(replace(lock, kind="barrier", state="1 of 2 arrived") if lock.id == COUNTED else lock
                  for lock in report.locks)
    facts = Facts(replace(report, locks=locks))
    (words,) = holdings(facts, facts.threads[2])
    assert plain(words).startswith("has not arrived at barrier 0x6000 (inferred: 1 reader counted")


def test_place_where_a_lock_was_taken() -> None:
    frame = healthy().threads[0].stack[2]
    lock = Lock("mutex:0x8", "mutex", 8, None, "locked", (Holder(1, EXCLUSIVE, RECORDED),), (Waiter(2, EXCLUSIVE),))
    thread = Thread(1, 1, 1, None, holds=(Hold(lock.id, EXCLUSIVE, RECORDED, None, frame),))  # type: ignore[arg-type]
    facts = Facts(replace(healthy(), threads=(thread,), locks=(lock,)))
    assert [plain(words) for words in holdings(facts, thread)] == [
        "holds pthread mutex 0x8, taken at /app/job.py:41 in update"]
