from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.model import Report
from gdbext.narrate import verdict
from gdbext.narrate.names import Facts
from gdbext.narrate.words import plain
from tests.support.fake_page import asyncio, ring
from tests.support.fake_report import gil_deadlock, healthy, standstill, standstill_of_workers, without_verdict


@pytest.mark.parametrize(("report", "tone", "words", "no_deadlock"), [
    (gil_deadlock(), "bad", "deadlock of 2 threads: the GIL, rwlock in libdrv.so", None),
    (standstill(), "bad", "standstill of 2 threads: the end of a thread, py-condition jobs of pool", None),
    (healthy(), "good", "no deadlock", "good"),
    (without_verdict(), "doubt",
     "whether there is a deadlock cannot be determined (PyPy in libpypy3.9-c.so is not decoded)", "doubt"),
    (asyncio(), "bad", "cycle of 2 tasks", "plain"),
    (replace(gil_deadlock(), deadlocks=gil_deadlock().deadlocks * 5), "bad",
     "; ".join(["deadlock of 2 threads: the GIL, rwlock in libdrv.so"] * 3) + "; 2 more deadlocks", None),
])
def test_headline(report: Report, tone: str, words: str, no_deadlock: str | None) -> None:
    facts = Facts(report)
    found = verdict.headline(facts)
    assert (found[0], plain(found[1])) == (tone, words)
    if no_deadlock is not None:
        assert verdict.no_deadlock(facts).tone == no_deadlock


def test_headline_of_a_target_without_a_report() -> None:
    tone, words = verdict.not_seen("no reason is known")
    assert (tone, plain(words)) == ("doubt", "could not be inspected: no reason is known")


def test_links_that_differ_in_one_thread_are_merged() -> None:
    report = standstill_of_workers(100)
    (deadlock,) = report.deadlocks
    assert [(len(link.waiters), link.holders) for link in verdict.links(deadlock)] == [(1, ()), (100, ())]
    assert verdict.no_holder(deadlock) == "not known"
    (deadlock,) = ring(4).deadlocks
    assert [(link.waiters, link.holders) for link in verdict.links(deadlock)] == [
        ((1,), [2]), ((2,), [3]), ((3,), [4]), ((4,), [1])]


def test_deadlocked_threads_with_the_same_wait_are_grouped() -> None:
    report = standstill_of_workers(100)
    assert [len(members) for members in verdict.alike(Facts(report), report.deadlocks[0])] == [1, 100]
    # threads that the report lacks
    report = replace(report, threads=())
    assert [len(members) for members in verdict.alike(Facts(report), report.deadlocks[0])] == [1, 100]


def test_deadlock_on_one_line() -> None:
    facts = Facts(gil_deadlock())
    assert plain(verdict.cycle_line(facts, facts.report.deadlocks[0])) == (
        'thread 1 "MainThread" waits for rwlock in libdrv.so of thread 2 "loader"; '
        'thread 2 "loader" waits for the GIL of thread 1 "MainThread"')
    facts = Facts(ring(7))
    assert plain(verdict.cycle_line(facts, facts.report.deadlocks[0])).endswith("; and 3 more")
