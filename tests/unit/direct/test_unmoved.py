"""A running process is read until nothing has changed meanwhile: of a child."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from gdbext.commands.report_options import ReportOptions
from gdbext.direct.unmoved import read_unmoved
from gdbext.errors import GdbextError, NoTarget
from gdbext.inferior.proc.threads import read_tasks
from gdbext.targets.process import ProcessTarget
from tests.support import samples

PROGRAM = """\
import sys, threading
busy = threading.Event()
threading.Thread(target=threading.Event().wait, daemon=True, name="idle").start()
if sys.argv[1] == "burning":
    threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True, name="burning").start()
print("ready", flush=True)
sys.stdin.readline()
"""


def child(kind: str) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            while process.poll() is None and any(
                    task.call is None for tid, task in read_tasks(process.pid).items()
                    if kind == "sleeping" or tid == process.pid):
                pass
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def sleeping() -> Iterator[int]:
    yield from child("sleeping")


@pytest.fixture
def burning() -> Iterator[int]:
    yield from child("burning")


def test_process_that_sleeps_does_not_notice(sleeping: int) -> None:
    before = read_tasks(sleeping)
    target, report, incomplete = read_unmoved(sleeping)
    assert read_tasks(sleeping) == before
    assert report.target.paused == 0.0
    assert target.stopped.ever == set()
    assert incomplete is None
    assert [thread.lwp for thread in report.threads] == [sleeping, *(tid for tid in before if tid != sleeping)]
    assert {thread.status for thread in report.threads} == {"blocked"}


def test_thread_that_runs_is_stopped_for_a_moment(burning: int) -> None:
    target, report, _ = read_unmoved(burning)
    assert report.target.paused
    assert [thread.status for thread in report.threads if thread.python_name == "burning"] == ["running"]
    assert target.stopped.current == set()
    assert {samples.thread_state(tid) for tid in read_tasks(burning)} <= {"R", "S"}


def test_thread_that_runs_is_unreadable_if_it_must_not_be_stopped(burning: int) -> None:
    target, report, _ = read_unmoved(burning, ReportOptions(may_stop=False))
    assert target.stopped.ever == set()
    assert report.target.paused == 0.0
    assert "unknown" in {thread.status for thread in report.threads}
    assert any(problem.where.startswith("thread ") for problem in report.problems)


def test_process_that_does_not_exist_is_one_line() -> None:
    with pytest.raises(NoTarget, match="there is no process"):
        ProcessTarget(1 << 30)


def test_process_of_another_processor_is_one_line(sleeping: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdbext.arch.x86_64.ELF_MACHINE", 3)
    with pytest.raises(GdbextError, match="not a 64-bit program for x86_64"):
        ProcessTarget(sleeping)
