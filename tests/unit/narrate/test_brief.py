"""The most important parts of a report."""

from __future__ import annotations

import dataclasses

from gdbext.model import DERIVED, INFERRED, Edge, Report
from gdbext.narrate.brief import Brief, brief, evidence, left_out, place, since
from gdbext.narrate.names import Facts
from gdbext.narrate.words import plain
from tests.support.fake_report import gil_deadlock, healthy, orphaned, standstill, standstill_of_workers
from tests.support.reasons import text


def chosen(report: Report, most: int = 8) -> Brief:
    return brief(Facts(report), most)


def links(report: Report) -> list[str]:
    return [plain((*link.words, *evidence(link))) for link in chosen(report).links]


def test_each_edge_has_its_evidence() -> None:
    assert links(gil_deadlock()) == ["thread 1 -> pthread rwlock 0x5591e0c0 in libdrv.so -> thread 2 (recorded)",
                                     "thread 2 -> the GIL -> thread 1 (recorded)"]
    assert links(orphaned()) == ["thread 1 -> pthread mutex 0x10 accounts in bank -> nobody (recorded)"]


def test_link_of_several_edges_has_the_weakest_evidence() -> None:
    report = gil_deadlock()
    lock = report.deadlocks[0].edges[0].lock
    edges = Edge(1, lock, 2), Edge(1, lock, 3, INFERRED, text("inferred")), Edge(1, lock, 4, DERIVED, text("derived"))
    report = dataclasses.replace(report, deadlocks=(dataclasses.replace(report.deadlocks[0], edges=edges),))
    assert links(report) == [
        "thread 1 -> pthread rwlock 0x5591e0c0 in libdrv.so -> threads 2-4 (inferred: inferred)"]


def test_edge_of_a_standstill_to_an_unknown_thread_is_left_out() -> None:
    found = chosen(standstill())
    assert [link.of.holders for link in found.links] == [[2]]
    assert found.links[0].evidence == INFERRED
    # what the other thread waits for is on its line
    assert plain(found.groups[1][1]) == "waits for queue.Queue 0x20 jobs of pool, queue is empty"


def test_wait_without_a_deadlock_is_an_edge() -> None:
    assert links(healthy()) == ["thread 2 -> the GIL -> thread 1 (recorded)"]


def test_evidence_follows_where_no_edge_has_it() -> None:
    report = standstill_of_workers(3)
    found = chosen(report)
    assert found.links == ()
    assert plain(found.remarks[0]).startswith("How this is known: inferred: ")
    assert sum(len(members) for members, _ in found.groups) == len(Facts(report).verdict.threads)


def test_what_is_left_out_is_counted() -> None:
    found = chosen(gil_deadlock(), 1)
    assert (found.left_out["thread"], found.left_out["edge"]) == (4, 1)
    assert plain(left_out(found.left_out, gil_deadlock())) == (
        "Left out: 4 threads, 1 edge, 2 locks, 1 note, 1 problem")
    assert left_out(dict.fromkeys(found.left_out, 0), gil_deadlock()) == ()


def test_place_has_the_native_function_and_the_line_of_the_program() -> None:
    first, second, *_, fifth = gil_deadlock().threads
    assert plain(place(first)) == "in update_table() in libdrv.so, at /app/job.py:41 in update"
    assert plain(place(second)) == "at /app/job.py:17 in work"
    assert place(fifth) == ()


def test_since_is_the_last_time_that_a_thread_of_the_verdict_ran() -> None:
    report = gil_deadlock()
    threads = [dataclasses.replace(thread, since=since) for thread, since in zip(report.threads, (200.0, 150.0, 1.0))]
    target = dataclasses.replace(report.target, time=86_400.0)
    report = dataclasses.replace(report, threads=tuple(threads), target=target)
    assert chosen(report).since == 150.0
    assert since(Facts(report), 150.0) == "Since: 1970-01-01 23:57:30Z, for 2 min none of these threads has run"
    assert since(Facts(gil_deadlock()), 9.0) == "Since: for 9 s none of these threads has run"
    assert since(Facts(report), 0.5) == since(Facts(report), None) == ""
    unknown = (dataclasses.replace(threads[0], since=None), *threads[1:])
    assert chosen(dataclasses.replace(report, threads=unknown)).since is None
