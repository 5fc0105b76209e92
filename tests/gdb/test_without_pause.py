"""Processes read without GDB and without a pause: the report is that of GDB, except for what only GDB knows."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdbext.commands.report_options import ReportOptions
from gdbext.direct.one_snapshot import Request, answer_request
from gdbext.inferior.proc.threads import read_tasks
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.snapshot import take_snapshot
from tests.support import gdb_session
from tests.support.documents import left_out, unexplained
from tests.support.interpreters import CHECKOUT
from tests.support.without_gdb import CASES, Json, assert_nothing_added, python_states, stacks, without_debug_files


@dataclass(frozen=True)
class Both:
    """The case, two documents of one process, what the second one left out, and how often the threads ran meanwhile."""

    name: str
    by_gdb: Json
    direct: Json
    left_out: set[str]
    runs: dict[int, int]


@pytest.fixture(scope="module", autouse=True)
def _without_debug_files() -> Iterator[None]:
    with without_debug_files():
        yield


@pytest.fixture(scope="module", params=CASES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    with CASES[request.param](tmp_path_factory.mktemp("process")) as sample:
        sample.wait_until_final()
        before = read_tasks(sample.pid)
        direct = json.loads("".join(read_directly(sample.pid)["document"]))
        after = read_tasks(sample.pid)
        sample.wait_until_final()
        seen = take_snapshot(Target(pid=sample.pid), Options(gdb=gdb_session.executable(), timeout=gdb_session.TIMEOUT))
        assert seen.document is not None, seen.problem
    runs = {tid: (after[tid].runs or 0) - (before[tid].runs or 0) for tid in before}
    return Both(request.param, seen.document, direct, left_out(direct), runs)


#: Threads that wait for one event.
WAITING = """
import sys, threading
threading.stack_size(256 << 10)
event = threading.Event()
for _ in range(3000):
    threading.Thread(target=event.wait, daemon=True).start()
print("ready", flush=True)
event.wait()
"""
#: Reads a process, writes the document, and prints its largest memory in MiB. The kernel's `ru_maxrss` would be at
#: least that of the process that has started this one.
READING = """
import sys
from gdbext.direct.one_snapshot import Request, answer_request
made = answer_request(Request(pid=int(sys.argv[1])), "")
with open(sys.argv[2], "w") as file:
    file.writelines(made["document"])
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM:")))
"""


def test_memory_of_a_report_is_linear_in_the_threads(tmp_path: Path) -> None:
    """A wait for one event kept the paths by which all waits before it had found the event: 280 MiB."""
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            while any(task.call is None for task in read_tasks(process.pid).values()):  # it has not begun to wait
                time.sleep(0.05)
            read = subprocess.run([sys.executable, "-c", READING, str(process.pid), tmp_path / "document"], text=True,
                                  capture_output=True, check=True, cwd=CHECKOUT, timeout=gdb_session.TIMEOUT)
        finally:
            process.kill()
    assert len(json.loads((tmp_path / "document").read_text())["threads"]) == 3001
    assert int(read.stdout) < 150


def read_directly(pid: int, may_stop: bool = True) -> Json:
    return answer_request(Request(ReportOptions(may_stop=may_stop), pid=pid), "")


def test_document_is_that_of_gdb(both: Both) -> None:
    assert gdb_session.violations(both.direct) == []
    assert len(both.direct["threads"]) == len(both.by_gdb["threads"])
    assert unexplained(both.name, both.by_gdb, both.direct, both.left_out) == []


def test_what_is_left_out_adds_no_holder_and_no_deadlock(both: Both) -> None:
    assert_nothing_added(both.by_gdb, both.direct)


def test_stacks_are_those_of_gdb(both: Both) -> None:
    """They are the same even where instructions are left out."""
    assert stacks(both.direct, running=False) == stacks(both.by_gdb, running=False)
    assert python_states(both.direct) == python_states(both.by_gdb)


def test_process_that_sleeps_does_not_run(both: Both) -> None:
    """Only those that wait for the GIL run, which they do by themselves."""
    waits = {thread["lwp"] for thread in both.direct["threads"]
             if (thread["waits"] or {}).get("lock", "").startswith("gil:")}
    if both.direct["target"]["paused"] == 0:
        assert {tid: runs for tid, runs in both.runs.items() if runs and tid not in waits} == {}
