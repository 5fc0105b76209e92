"""A thread that waits until its child process calls execve. The kernel stops it for no debugger until then."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gdbext
from gdbext.inferior.proc.threads import read_tasks
from tests.support import samples
from tests.support.samples import wait_until

#: The numbers of the system calls: vfork; clone, clone3.
CALLS = {"vfork": {58}, "spawn": {56, 435}}


@contextlib.contextmanager
def running(scene: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    program, fifo = samples.compiled("vfork", "vfork.c", ("-O1", "-Wall", "-Wextra"), strip=False), folder / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen([program, scene, fifo]) as process:
        try:
            def is_waiting() -> bool:
                call = read_tasks(process.pid)[process.pid].call
                return call is not None and call.number in CALLS[scene]

            wait_until(is_waiting, scene)
            yield process
        finally:
            with open(fifo, "wb"):  # the child goes on
                pass
            assert process.wait(60) == 0


@pytest.mark.parametrize("scene", CALLS)
def test_thread_that_waits_until_its_child_calls_execve(scene: str, tmp_path: Path) -> None:
    with running(scene, tmp_path) as process:
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        report = gdbext.report(process.pid, without_gdb=True)
        text = str(report)
    assert (report.verdict.kind, report.verdict.threads) == ("children", (1,))
    assert f'thread 1 "vfork" waits until child process {child} "vfork" calls execve' in text
    assert "not paused" in text
    functions = [frame.function for frame in report.model.threads[0].stack]
    assert functions.index(f"start_by_{scene}") + 1 == functions.index("main")
    assert "Not known" not in text
