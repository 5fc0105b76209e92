"""The process that reports on the one beside which it runs when that hangs (`gdbext.install_watchdog`)."""

from __future__ import annotations

import contextlib
import os
import select
import time
from pathlib import Path

from gdbext.errors import GdbextError
from gdbext.launcher.output import say
from gdbext.launcher.snapshots.options import Options
from gdbext.launcher.status import FOUND
from gdbext.launcher.watching.activity import Sample, Stillness, read_sample
from gdbext.launcher.watching.tree_report import report_tree, write_page
from gdbext.render.output_file import write_private

#: How often the processor time of the main thread is read: so many times in the given time, at least and at most.
_SAMPLES, _LEAST, _MOST = 8, 0.25, 10.0
#: The time between two reports that must agree, in seconds.
_APART = 1.0
#: By how much the time grows after a report that found nothing, and to how many times the given one.
_GROWTH, _LONGEST = 2, 16


def main(pid: int, seconds: float, directory: str) -> None:
    """Watch the main thread of a process until that ends.

    A report is written if the thread has used nearly no processor time for so long, and if two reports find the same
    problem. A server that waits for work has none. Each hang is reported once.

    :param pid: the process; its main thread has the same number.
    """
    poll = select.poll()
    poll.register(0, select.POLLIN)  # its end: the process has ended
    with contextlib.suppress(AttributeError, OSError):  # before Python 3.9 or Linux 5.3
        poll.register(os.pidfd_open(pid), select.POLLIN)
    step = min(max(seconds / _SAMPLES, _LEAST), _MOST)
    still = Stillness(lambda: _main_thread(pid), time.monotonic())
    wanted, reported, count = seconds, False, 0
    while not poll.poll(step * 1000) and os.getppid() == pid:
        now = time.monotonic()
        quiet = still.update(now)
        if quiet < step:
            wanted, reported = seconds, False
        if reported or quiet < wanted:
            continue
        count += 1
        try:
            reported = _report(pid, directory, f"hang-{pid}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{count}")
        except (GdbextError, OSError) as error:
            say(f"gdbext: no report: {error}")
        wanted = min(wanted * _GROWTH, seconds * _LONGEST)


def _main_thread(pid: int) -> Sample:
    return {thread: spent for thread, spent in read_sample((pid,)).items() if thread[1] == pid}


def _report(pid: int, directory: str, name: str) -> bool:
    """Write a report if the process has a problem that lasts; whether it has one."""
    first = report_tree(pid, Options())
    if first.status != FOUND:
        return False
    time.sleep(_APART)
    report = report_tree(pid, Options())
    if report.status != FOUND:
        return False
    write_page(report, directory, name, f"gdbext: process {pid}")
    write_private(str(Path(directory) / f"{name}.txt"), report.text)
    return True
