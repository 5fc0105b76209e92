"""Every renderer gives the same verdict: text, page, index of a page, classes of triage, Dask page, process tree."""

from __future__ import annotations

import dataclasses
import json

import pytest

from gdbext.launcher import children as processes
from gdbext.launcher.cluster import page as cluster_page
from gdbext.launcher.snapshots import classes
from gdbext.launcher.snapshots.snapshot import Snapshot
from gdbext.launcher.status import FOUND, NO_ANSWER, NOTHING_FOUND, status_of
from gdbext.model import Report
from gdbext.narrate import deadlocks, names, sentences, threads, verdict
from gdbext.narrate.classes import CRASH, DEADLOCK, OTHER, UNKNOWN
from gdbext.narrate.words import plain
from gdbext.render.dot import as_dot
from gdbext.render.escape import NOTHING, Safe
from gdbext.render.html import html_page
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from gdbext.schema.read import read_document
from gdbext.verdict.judge import judge
from tests.support.documents import as_json
from tests.support.fake_page import Page, crash, document_of, look
from tests.support.fake_report import (
    gil_deadlock,
    healthy,
    inferred_deadlock,
    orphaned,
    standstill,
    without_verdict,
    world_that_does_not_stop,
)
from tests.support.reasons import said, text

WHY = "PyPy in libpypy3.9-c.so is not decoded"


def waits_for_itself() -> Report:
    report = orphaned()
    (deadlock,), (lock,) = report.deadlocks, report.locks
    edge = dataclasses.replace(deadlock.edges[0], holder=1)
    return dataclasses.replace(report, locks=(dataclasses.replace(lock, orphan=None),),
                               deadlocks=(dataclasses.replace(deadlock, edges=(edge,), why=None),))


def with_doubt(report: Report) -> Report:
    return dataclasses.replace(report, no_verdict=text(WHY))


def without_deadlock(report: Report) -> Report:
    return dataclasses.replace(report, deadlocks=())


#: A report for each verdict, with its class, exit status, and the beginning of its title in text and page.
VERDICTS = {
    "recorded deadlock": (gil_deadlock(), DEADLOCK, FOUND, "DEADLOCK"),
    "inferred deadlock": (inferred_deadlock(), DEADLOCK, FOUND, "DEADLOCK"),
    "stopped world": (world_that_does_not_stop(), DEADLOCK, FOUND, "DEADLOCK"),
    "owner gone": (orphaned(), DEADLOCK, FOUND, "LOCK WITHOUT OWNER"),
    "waits for itself": (waits_for_itself(), DEADLOCK, FOUND, "DEADLOCK"),
    "standstill": (standstill(), DEADLOCK, FOUND, "STANDSTILL"),
    "deadlock beside a doubt": (with_doubt(gil_deadlock()), DEADLOCK, FOUND, "DEADLOCK"),
    "crash": (without_deadlock(crash()), CRASH, FOUND, "CRASH"),
    "crash and a doubt": (with_doubt(without_deadlock(crash())), CRASH, FOUND, "CRASH"),
    "no verdict": (without_verdict(), UNKNOWN, NO_ANSWER, "UNKNOWN"),
    "nothing": (healthy(), OTHER, NOTHING_FOUND, "COMPUTING"),
}


def text_of(report: Report) -> str:
    return TextRenderer(report, Style(False), lambda file, line: None).threads(None, False, "full")


def page_of(*reports: Report) -> str:
    snapshots = [look(report, f"process {number}") for number, report in enumerate(reports)]
    return Page(html_page(snapshots, "all")).text()


@pytest.mark.parametrize("name", VERDICTS)
def test_renderers_agree(name: str) -> None:
    report, kind, status, title = VERDICTS[name]
    facts = names.Facts(report)
    sentence, index = plain(sentences.sentence(facts)), plain(verdict.headline(facts)[1])
    assert sentences.verdict_title(facts.verdict) == title
    assert f"{title}: {sentence}.\n" in text_of(report)
    assert f"{title}{sentence}." in page_of(report)
    assert index in page_of(report, healthy())
    made = json.loads(as_json(report))["verdict"] if report.crash is None else document_of(report)["verdict"]
    assert (made["kind"], made["title"], made["sentence"]) == (facts.verdict.kind, title, sentence)
    assert status_of(report) == status
    found = classes.signature(report)
    assert (found.kind, found.status) == (kind, status)
    assert classes.Triage(classes.merge([("process 885", document_of(report))])).status == status
    if report.deadlocks:
        dask = cluster_page.headline(report)
        assert dask.startswith("standstill" if title == "STANDSTILL" else "deadlock")
        assert found.title.startswith(dask.split()[0])
    elif report.crash is None:
        assert "no deadlock" in cluster_page.headline(report) or WHY in cluster_page.headline(report)


@pytest.mark.parametrize("name", VERDICTS)
def test_renderers_use_the_same_words_for_threads_and_locks(name: str) -> None:
    report, *_ = VERDICTS[name]
    facts = names.Facts(report)
    text, made, dot = text_of(report), page_of(report), as_dot(report)
    for deadlock in report.deadlocks:
        for link in deadlocks.links(deadlock):
            assert deadlock.standstill or plain(deadlocks.link_line(facts, deadlock, link)) in text
            assert plain(deadlocks.link_sentence(facts, deadlock, link)) in made
    for thread in report.threads:
        for words in (names.heading([thread]), threads.doing(facts, thread), *threads.holdings(facts, thread)):
            assert plain(words) in text
            assert plain(words) in made
        if thread.waits is not None:
            assert f"thread {thread.number}" in dot
    for lock_id in {edge.lock for deadlock in report.deadlocks for edge in deadlock.edges}:
        name_in_words = plain(names.lock_name(facts, facts.locks[lock_id]))
        assert name_in_words in text
        assert name_in_words in made
        if not name_in_words.startswith("the end"):
            assert all(word in dot for word in name_in_words.split())


@pytest.mark.parametrize("name", VERDICTS)
def test_colour_of_a_page_matches_the_verdict(name: str) -> None:
    report, *_ = VERDICTS[name]
    tone = verdict.headline(names.Facts(report))[0]
    assert tone == {"stuck": "bad", "fine": "good", "doubt": "doubt"}[judge(report).outcome]
    page = Page(html_page([look(report, "process 885")], "all"))
    assert {f"block first {tone}"} == {attributes["class"] for _, attributes in page.elements
                                       if (attributes.get("class") or "").startswith("block first")}


def test_process_tree_has_processes_without_a_verdict() -> None:
    snapshots = {pid: Snapshot(f"process {pid}", json.dumps(document_of(report)).encode(), Safe(text_of(report)),
                               NOTHING, 0.1, 0.5, said(report.no_verdict),
                               None, NO_ANSWER if report.no_verdict else NOTHING_FOUND)
             for pid, report in ((10, healthy()), (11, without_verdict()))}
    tree = processes.Tree(10, {10: None, 11: 10}, snapshots, 0.0, {}, (), None)
    words = processes.text(tree, tree.triage)
    assert words.splitlines()[0] == ("2 processes: 0 deadlocked with each other, 0 with a deadlock of their own, "
                                     "1 without a verdict")
    assert tree.triage.status == NO_ANSWER


def test_summary_of_triage_counts_targets_without_a_verdict() -> None:
    documents = [(f"core.{number}", document_of(report))
                 for number, report in enumerate((healthy(), without_verdict(), with_doubt(healthy())))]
    triage = classes.Triage(classes.merge(documents))
    assert classes.summary(triage) == "3 cores: 0 deadlocked, 0 crashed, 1 neither, 2 without a verdict; 2 classes"
    assert [row["verdict"].partition(":")[0] for row in classes.class_rows(triage)] == ["unknown", "COMPUTING"]


def test_document_that_does_not_list_deadlocks_has_no_verdict_anywhere() -> None:
    document = json.loads(as_json(healthy(), ["runtimes", "threads", "locks", "problems"]))
    report = read_document(document)
    for words in (text_of(report), page_of(report), cluster_page.headline(report)):
        assert "cannot be determined" in words
    assert classes.signature(report).kind == UNKNOWN
