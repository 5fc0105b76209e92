"""Reports in brief, as text and JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from gdbext.launcher.api import Report as SavedReport
from gdbext.model import EXCLUSIVE, RECORDED, Deadlock, Edge, Holder, Lock, Report, Thread, Wait, Waiter
from gdbext.render.brief import brief_json, brief_text
from gdbext.render.style import PLAIN
from tests.support.documents import as_json
from tests.support.fake_report import (
    INFO,
    asyncio,
    crashed,
    gil_deadlock,
    healthy,
    hostile,
    inferred_deadlock,
    left_behind,
    orphaned,
    standstill,
    standstill_of_workers,
    stopped,
    traced,
    without_verdict,
    world_that_does_not_stop,
)

REPORTS = {each.__name__: each for each in (
    asyncio, crashed, gil_deadlock, healthy, inferred_deadlock, left_behind, orphaned, standstill, stopped, traced,
    without_verdict, world_that_does_not_stop)}


def in_brief(report: Report, *processes: str) -> Any:
    made = brief_json(report, processes)
    assert len(made) <= 4_000
    assert made.isascii()
    return json.loads(made)


def ring(threads: int, name: str) -> Report:
    """Threads that all wait for each other."""
    locks = [f"mutex:{number:#x}" for number in range(1, threads + 1)]
    after = [number % threads + 1 for number in range(1, threads + 1)]
    return Report(
        dataclasses.replace(INFO, command_line=name), (),
        tuple([Thread(number, number, number, name, status="blocked", syscall="futex",
                      waits=Wait(locks[after[number - 1] - 1], EXCLUSIVE, False)) for number in range(1, threads + 1)]),
        tuple([Lock(lock, "mutex", index, name, "locked", (Holder(index, EXCLUSIVE, RECORDED),),
                    (Waiter((index - 2) % threads + 1, EXCLUSIVE),)) for index, lock in enumerate(locks, 1)]),
        (Deadlock(tuple(range(1, threads + 1)), RECORDED,
                  tuple([Edge(number, locks[after[number - 1] - 1], after[number - 1])
                         for number in range(1, threads + 1)])),))


def test_text_has_verdict_threads_edges_and_counts() -> None:
    assert brief_text(gil_deadlock(), PLAIN) == """\
gdbext: /usr/bin/python3.11  PID 885, CPython 3.11.7
DEADLOCK: 2 threads wait for each other; 1 more is stuck behind them.
  Thread 1 (LWP 885, TID 1) "MainThread": in update_table() in libdrv.so, at /app/job.py:41 in update
  Thread 2 (LWP 886, TID 2) "loader": at /app/job.py:17 in work
  thread 1 -> pthread rwlock 0x5591e0c0 in libdrv.so -> thread 2 (recorded)
  thread 2 -> the GIL -> thread 1 (recorded)
Left out: 3 threads, 1 lock, 1 note, 1 problem
"""


def test_json_has_the_same_as_values() -> None:
    made = in_brief(inferred_deadlock())
    assert made["schema"] == "gdbext-brief/1"
    assert made["target"] == {"kind": "live", "pid": 885, "program": "/usr/bin/python3.11"}
    assert made["verdict"] == {"kind": "deadlock", "title": "DEADLOCK", "sentence": "2 threads wait for each other",
                               "evidence": "inferred", "ends_by_itself": False}
    assert [(edge["waiters"], edge["lock"], edge["holders"], edge["evidence"]) for edge in made["edges"]] == [
        ([1], "rwlock:0x6000", [2], "inferred"), ([2], "mutex:0x10", [1], "recorded")]
    assert made["edges"][0]["why"].startswith("1 reader counted, none recorded; ")
    assert made["edges"][1]["why"] is made["next"] is made["since"] is None
    assert [(each["numbers"], each["lwp"], each["name"]) for each in made["threads"]] == [
        ([1], 10, "a"), ([2], 11, "b")]


def test_next_step_is_a_list_of_arguments() -> None:
    assert in_brief(stopped())["next"] == ["kill", "-CONT", "885"]
    assert in_brief(stopped("cgroup", "/sys/fs/cgroup/a b/cgroup.freeze"))["next"] == [
        "sh", "-c", "echo 0 > '/sys/fs/cgroup/a b/cgroup.freeze'"]
    assert in_brief(stopped("cgroup", f"/{'x' * 500}/cgroup.freeze"))["next"] is None  # a part of it would be wrong


@pytest.mark.parametrize("name", REPORTS)
def test_verdict_and_sizes_of_every_report(name: str) -> None:
    for report in (REPORTS[name](), hostile(REPORTS[name]())):
        text = brief_text(report, PLAIN)
        assert text.count("\n") <= 15
        assert all(line.isprintable() for line in text.splitlines())
        made = in_brief(report)
        assert f"{made['verdict']['title']}: " in text


@pytest.mark.parametrize("report", [
    ring(2, "\U0001f600" * 500), ring(40, "\u4e00" * 70), ring(300, "worker" * 20), standstill_of_workers(200, 100)],
    ids=["long", "wide", "many", "standstill"])
def test_large_report_is_cut(report: Report) -> None:
    assert brief_text(report, PLAIN).count("\n") <= 15
    made = in_brief(report)
    shown = sum(each["count"] for each in made["threads"])
    assert shown + made["left_out"]["threads"] == len(report.threads)
    assert made["verdict"]["sentence"]


def test_saved_report_has_the_same_text() -> None:
    saved = SavedReport.from_json(as_json(gil_deadlock())).model
    assert brief_text(saved, PLAIN) == brief_text(gil_deadlock(), PLAIN)
    assert brief_json(saved) == brief_json(gil_deadlock())


def test_other_processes_that_are_the_answer_come_instead() -> None:
    lines = ["2 processes", "", *(f"  process {number} is in trouble \x1b" for number in range(40))]
    text = brief_text(healthy(), PLAIN, lines).splitlines()
    assert len(text) == 15
    assert text[1:3] == ["2 processes", "  process 0 is in trouble \\x1b"]
    assert text[-1] == "Next: gdbext report --children 885"
    made = in_brief(healthy(), *lines)
    assert made["processes"][:2] == ["2 processes", "process 0 is in trouble \\x1b"]
    assert made["next"] == ["gdbext", "report", "--children", "885"]
