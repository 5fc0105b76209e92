"""Busy healthy programs do not notice that they are read without GDB."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from gdbext.commands.report_options import ReportOptions
from gdbext.direct.unmoved import read_unmoved
from gdbext.errors import GdbextError
from gdbext.verdict.judge import judge
from tests.support import samples
from tests.support.busy import busy

#: As many as a test may take; `scripts/soak` looks 1,000 times.
LOOKS = 15

#: Between vfork and the end of the child a program waits for the child; after exec it has no libraries yet.
ALSO = {"vfork": "children", "exec": "unknown"}


@pytest.mark.parametrize("mode", ["heartbeat", "epoll", "pipe"])
@pytest.mark.parametrize("may_stop", [True, False], ids=["", "no-stop"])
def test_program_does_not_notice(mode: str, may_stop: bool, tmp_path: Path) -> None:
    with busy(mode, tmp_path) as program:
        for _ in range(LOOKS):
            _, report, _ = read_unmoved(program.pid, ReportOptions(may_stop=may_stop))
            # on a slow machine a thread may run whenever it is read
            unread = {thread.number for thread in report.threads if not thread.stack}
            assert judge(report).kind in ("idle", "computing") or unread and not may_stop
            assert not unread or not may_stop
            program.wait_for_steps(2)
        counters = program.counters
        assert (counters.interrupted, counters.partial, counters.wrong) == (0, 0, 0)


@pytest.mark.parametrize("mode", ["storm", "vfork", "large", "exec"])
def test_program_that_changes_all_the_time_goes_on(mode: str, tmp_path: Path) -> None:
    """There may be no report, but a report never shows a hang."""
    with busy(mode, tmp_path) as program:
        for _ in range(4):
            with contextlib.suppress(GdbextError):
                _, report, _ = read_unmoved(program.pid)
                assert judge(report).kind in ("idle", "computing", ALSO.get(mode))
            program.wait_for_steps(2)
        assert program.counters.wrong == 0


@pytest.mark.parametrize("may_stop", [True, False], ids=["", "no-stop"])
def test_busy_worker_of_io_uring_is_left_out(may_stop: bool, tmp_path: Path) -> None:
    """The kernel lists it among the threads, but it runs no code of the process."""
    with busy("uring", tmp_path) as program:
        for _ in range(4):
            _, report, _ = read_unmoved(program.pid, ReportOptions(may_stop=may_stop))
            assert [thread.lwp for thread in report.threads] == [program.pid]
            assert judge(report).kind == "idle"
        tids = [path.name for path in Path(f"/proc/{program.pid}/task").iterdir()]
        assert "R" in [samples.thread_state(int(tid)) for tid in tids], "the worker had nothing left to do"
