"""The lines about processes and their waits for each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.model import Thread
from gdbext.model.reasons import Reason, because
from gdbext.model.verdict import Verdict
from gdbext.narrate import processes
from gdbext.narrate.processes import ProcessName
from gdbext.narrate.words import plain
from tests.support.fake_report import healthy

PARENT, CHILD = ProcessName(100, "python"), ProcessName(200, None)
THREAD = Thread(1, 100, None, "python", python_name="MainThread")
READS = because("reads-descriptor", link="pipe:[11]", fd=3)


def test_tree_summary_mentions_missing_verdicts_only_if_there_are_any() -> None:
    assert processes.tree_summary(1, 0, 1, 0) == (
        "1 process: 0 deadlocked with each other, 1 with a deadlock of their own")
    assert processes.tree_summary(2, 2, 0, 1).endswith("0 with a deadlock of their own, 1 without a verdict")


def test_process_of_a_deadlock_is_no_longer_without_a_verdict() -> None:
    report = replace(healthy(), verdict=Verdict("unknown"))
    assert plain(processes.process_line(PARENT, report, None, False)) == 'process 100 "python": UNKNOWN'
    assert plain(processes.process_line(PARENT, report, None, True, [200])) == (
        'process 100 "python": DEADLOCK with process 200')
    assert plain(processes.process_line(PARENT, None, "gone", True, [200, 300])) == (
        'process 100 "python": DEADLOCK with processes 200, 300')


@pytest.mark.parametrize(("kind", "awaited", "thread", "end"), [
    ("child", because("end-of-process", pids=(200,)), None, "waits for the end of process 200"),
    ("pipe", READS, None, "waits to read pipe:[11], fd 3, which has its other end in process 200, itself"),
    ("mutex", because("shared-lock", kind="mutex", name=None, path="", offset=64), None,
     "waits for pthread mutex in shared memory (without a file, 0x40), which is held by process 200, itself"),
    ("mutex", because("shared-lock", kind="mutex", name=None, path="/memfd:x (deleted)", offset=64), None,
     "waits for pthread mutex in shared memory (/memfd:x, 0x40), which is held by process 200, itself"),
    ("semaphore", because("shared-lock", kind="py-lock", name="guard", path="/dev/shm/x (deleted)", offset=0), None,
     "waits for multiprocessing.Lock guard, which is held by process 200, itself"),
    ("lock", because("futex-word"), None, "waits for a futex word, which may be released by process 200, itself"),
    ("lock", because("named-lock", name="the GIL"), 7, "waits for the GIL of thread 7"),
    ("lock", because("end-of-thread", number=7), 7, "waits for the end of thread 7")])
def test_wait_line_says_who_can_end_the_wait(kind: str, awaited: Reason, thread: int | None, end: str) -> None:
    line = processes.wait_line(PARENT, 1, THREAD, kind, awaited, thread, [CHILD, PARENT])
    assert plain(line) == f'process 100 "python" thread 1 "MainThread" {end}'


def test_deadlock_heading_has_evidence_unless_recorded_without_a_reason() -> None:
    assert plain(processes.deadlock_heading((1, 2), "recorded", None)) == "Deadlock between processes 1, 2"
    assert plain(processes.deadlock_heading((1, 2), "inferred", because("no-thread-can-run"))) == (
        "Deadlock between processes 1, 2 (inferred: none of these threads can run)")


def test_processes_at_the_end_of_all_chains() -> None:
    assert plain(processes.end_of_chains([CHILD], 1, False)) == (
        f"1 process waits for {plain(processes.process_name(CHILD))}, directly or not")
    both = plain(processes.end_of_chains([PARENT, CHILD], 2, True))
    assert both.endswith(" wait for a message of each other, and none is on the way; 2 processes wait for them")
    assert plain(processes.end_of_chains([PARENT, CHILD], 0, False)).endswith(" wait for each other")
    assert plain(processes.deadlock_heading((1, 2), "recorded", None, True)).startswith("Lost message: ")
