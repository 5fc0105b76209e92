"""A process whose first thread has ended is read by its other threads: GDB cannot attach to it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.launcher import launch, launch_by


@pytest.mark.parametrize("options", [(), ("--no-gdb",), ("--no-stop",), ("--gdb", "gdb")])
def test_deadlock_of_the_threads_that_are_left(options: tuple[str, ...], tmp_path: Path) -> None:
    with samples.running([samples.build("abba"), "mutex", "main-ends"], tmp_path) as sample:
        samples.wait_until(lambda: sample.status(sample.pid, "State").startswith("Z"), "the first thread to end")
        ran = launch_by([sys.executable, "-m", "gdbext", "report", str(sample.pid), "--json", *options])
    document = ran.document()
    assert ran.status == 1, ran.stderr
    assert document["verdict"]["kind"] == "deadlock"
    assert {thread["lwp"] for thread in document["threads"]} == {
        thread.tid for thread in sample.truth.threads.values()}
    assert any(frame["function"] == "move_goods" and frame["line"] for thread in document["threads"]
               for frame in thread["stack"])


def test_tree_of_a_process_without_its_first_thread(tmp_path: Path) -> None:
    with samples.running([samples.build("abba"), "rwlock", "main-ends"], tmp_path) as sample:
        samples.wait_until(lambda: sample.status(sample.pid, "State").startswith("Z"), "the first thread to end")
        ran = launch("report", str(sample.pid), "--children")
    assert ran.status == 1, ran.stderr
    assert "DEADLOCK: 2 threads wait for each other" in ran.stdout
