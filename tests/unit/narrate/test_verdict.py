from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gdbext.model import Holder, Lock, Report, Stopped, Thread, Wait, Waiter
from gdbext.model.reasons import Reason, because
from gdbext.model.verdict import OUTCOMES, Verdict, VerdictKind
from gdbext.narrate import deadlocks, sentences, verdict
from gdbext.narrate.names import Facts
from gdbext.narrate.words import plain
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from gdbext.schema.read import read_document
from gdbext.verdict.judge import ends_by_itself
from gdbext.verdict.wait_for import find_deadlocks
from tests.support.documents import as_json
from tests.support.fake_page import asyncio, ring
from tests.support.fake_report import (
    gil_deadlock,
    healthy,
    standstill,
    standstill_of_workers,
    stopped,
    traced,
    without_verdict,
)


@pytest.mark.parametrize(("report", "tone", "words"), [
    (gil_deadlock(), "bad", "deadlock of 2 threads: the GIL, pthread rwlock in libdrv.so"),
    (standstill(), "bad", "standstill of 2 threads: the end of a thread, queue.Queue jobs of pool"),
    (healthy(), "good",
     'no deadlock found; thread 1 "MainThread" runs in update job.py:41; 1 thread waits for it'),
    (without_verdict(), "doubt",
     "whether there is a deadlock cannot be determined (PyPy in libpypy3.9-c.so is not decoded)"),
    (asyncio(), "bad", "cycle of 2 tasks"),
    (replace(gil_deadlock(), deadlocks=gil_deadlock().deadlocks * 5), "bad",
     "; ".join(["deadlock of 2 threads: the GIL, pthread rwlock in libdrv.so"] * 3) + "; 2 more deadlocks"),
])
def test_headline(report: Report, tone: str, words: str) -> None:
    found = verdict.headline(Facts(report))
    assert (found[0], plain(found[1])) == (tone, words)


def waiting_for_results(number: int, holders: Sequence[int], lost: Reason | None = None) -> Lock:
    """The result that a thread waits for."""
    why = because("call-is-queued", function="child", workers=len(holders), queued=2, functions=("child", "other"))
    return Lock(f"py-condition:{number:#x}", "py-condition", number, None, "result is pending",
                tuple(Holder(holder, "exclusive", "inferred", why) for holder in holders),
                (Waiter(number, "exclusive"),), orphan=because("no-maker") if lost else None, wait_for="any",
                why=why if holders else lost)


def of_results(locks: Sequence[Lock]) -> Report:
    """A report whose threads, numbered from 1, wait for these results."""
    threads = tuple(Thread(number, 100 + number, None, None, status="blocked", waits=Wait(lock.id, "exclusive", False))
                    for number, lock in enumerate(locks, 1))
    return replace(gil_deadlock(), threads=threads, locks=tuple(locks), deadlocks=find_deadlocks(threads, locks),
                   runtimes=())


def test_exhausted_pool_names_the_queued_calls() -> None:
    facts = Facts(of_results([waiting_for_results(1, (1, 2)), waiting_for_results(2, (1, 2))]))
    assert sentences.verdict_title(facts.verdict) == "POOL EXHAUSTED"
    assert plain(sentences.sentence(facts)) == (
        "all 2 workers of the pool wait for results, and no worker is left to make them; 2 calls are queued behind "
        "them: child, other")
    assert plain(verdict.headline(facts)[1]) == "exhausted pool of 2 threads: 2 x result"
    assert list(map(plain, verdict.how_known(facts))) == [
        "inferred: its call of child is queued, with 1 more, behind all 2 workers of the pool"]


def test_lost_result_says_why_nobody_makes_it() -> None:
    facts = Facts(of_results([waiting_for_results(1, (), because("pool-without-workers", pending=2))]))
    assert sentences.verdict_title(facts.verdict) == "RESULT NEVER COMES"
    why = "its pool has no worker process and starts none; 2 calls are pending"
    assert plain(sentences.sentence(facts)) == f"1 thread waits for a result that nobody makes ({why})"
    assert plain(verdict.headline(facts)[1]) == "lost result of 1 thread: result (nobody makes it)"


@pytest.mark.parametrize("kind", OUTCOMES)
def test_sentence_of_a_verdict_whose_facts_a_document_lacks(kind: VerdictKind) -> None:
    report = replace(gil_deadlock(), threads=(), locks=(), deadlocks=(), runtimes=(), verdict=Verdict(kind))
    facts = Facts(report)
    assert plain(sentences.sentence(facts))
    assert verdict.next_step(facts) in ("", "gdbext report --children 885", "gdbext ranks 885")
    assert TextRenderer(report, Style(False), lambda file, line: None).threads(None, False, "full")


CONTAINER = "/sys/fs/cgroup/system.slice/docker-" + "0123456789ab" + "c" * 52 + ".scope/cgroup.freeze"


@pytest.mark.parametrize(("report", "words", "step"), [
    (stopped(), "by SIGSTOP", "kill -CONT 885"),
    (stopped(name=None), "by a signal", "kill -CONT 885"),
    (stopped(name="SIGTTOU"), "by SIGTTOU, since it wrote to its terminal in the background; `fg` in its shell "
                              "continues it", ""),
    (traced(), 'process 4711 "gdb" traces the process and has stopped it', ""),
    (stopped("tracer", None), "a process of another PID namespace traces the process and has stopped it", ""),
    (stopped("cgroup", None), "its cgroup is frozen", ""),
    (stopped("cgroup", "/sys/fs/cgroup/a b/freezer.state"), "its cgroup /sys/fs/cgroup/a b is frozen",
     "echo THAWED > '/sys/fs/cgroup/a b/freezer.state'"),
    (stopped("cgroup", "/sys/fs/cgroup/job/cgroup.freeze"), "its cgroup /sys/fs/cgroup/job is frozen",
     "echo 0 > /sys/fs/cgroup/job/cgroup.freeze"),
    (stopped("cgroup", CONTAINER), f"its cgroup {CONTAINER.rpartition('/')[0]} is frozen",
     "docker unpause 0123456789ab"),
])
def test_sentence_and_next_step_of_a_stopped_process(report: Report, words: str, step: str) -> None:
    facts = Facts(report)
    assert sentences.verdict_title(facts.verdict) == "STOPPED"
    assert plain(sentences.sentence(facts)) == words
    assert verdict.next_step(facts) == step
    assert " 1 ran." in verdict.counts(report)


def test_headline_of_a_deadlock_in_a_stopped_process_says_both() -> None:
    made = gil_deadlock()
    facts = Facts(replace(made, target=replace(made.target, stopped=Stopped("signal", "SIGTSTP"))))
    assert plain(verdict.headline(facts)[1]) == (
        "deadlock of 2 threads: the GIL, pthread rwlock in libdrv.so; stopped: by SIGTSTP")
    assert [plain(words) for words in verdict.remarks(facts)] == [
        "The process is stopped, too: by SIGTSTP: kill -CONT 885."]


def test_verdict_of_a_newer_version() -> None:
    made = json.loads(as_json(healthy()))
    made["verdict"]["kind"] = "solar-flare"
    report = read_document(made)
    facts = Facts(report)
    assert (sentences.verdict_title(facts.verdict), facts.verdict.outcome) == ("SOLAR-FLARE", "doubt")
    assert ends_by_itself(report) is None
    assert verdict.headline(facts)[0] == "doubt"


def test_headline_of_a_target_without_a_report() -> None:
    tone, words = verdict.not_seen("no reason is known")
    assert (tone, plain(words)) == ("doubt", "could not be inspected: no reason is known")


def test_links_that_differ_in_one_thread_are_merged() -> None:
    report = standstill_of_workers(100)
    (deadlock,) = report.deadlocks
    assert [(len(link.waiters), link.holders) for link in deadlocks.links(deadlock)] == [(1, ()), (100, ())]
    assert deadlocks.no_holder(deadlock) == "not known"
    (deadlock,) = ring(4).deadlocks
    assert [(link.waiters, link.holders) for link in deadlocks.links(deadlock)] == [
        ((1,), [2]), ((2,), [3]), ((3,), [4]), ((4,), [1])]


def test_deadlocked_threads_with_the_same_wait_are_grouped() -> None:
    report = standstill_of_workers(100)
    assert [len(members) for members in deadlocks.alike(Facts(report), report.deadlocks[0])] == [1, 100]
    # threads that the report lacks
    report = replace(report, threads=())
    assert [len(members) for members in deadlocks.alike(Facts(report), report.deadlocks[0])] == [1, 100]


def test_deadlock_on_one_line() -> None:
    facts = Facts(gil_deadlock())
    assert plain(deadlocks.cycle_line(facts, facts.report.deadlocks[0])) == (
        'thread 1 "MainThread" waits for pthread rwlock in libdrv.so of thread 2 "loader"; '
        'thread 2 "loader" waits for the GIL of thread 1 "MainThread"')
    facts = Facts(ring(7))
    assert plain(deadlocks.cycle_line(facts, facts.report.deadlocks[0])).endswith("; and 3 more")
