"""The process that reports on the one beside which it runs when that receives a signal (`gdbext.install_signal`)."""

from __future__ import annotations

import contextlib
import os
import select
import time
from pathlib import Path

from gdbext.errors import GdbextError
from gdbext.launcher.output import say
from gdbext.launcher.snapshots.options import Options
from gdbext.launcher.watching.tree_report import report_tree, write_page
from gdbext.render.output_file import write_private

_PIECE = 1 << 16


def main(pid: int, number: int, directory: str) -> None:
    """Wait for bytes on standard input, which are the numbers of signals, until the process ends.

    :param pid: the process.
    :param number: the signal to report on.
    """
    poll = select.poll()
    poll.register(0, select.POLLIN)
    with contextlib.suppress(AttributeError, OSError):  # before Python 3.9 or Linux 5.3
        # forks of the process keep its end of the pipe open
        poll.register(os.pidfd_open(pid), select.POLLIN)
    count = 0
    while os.getppid() == pid:
        if not any(descriptor == 0 for descriptor, _ in poll.poll()):
            return
        received = os.read(0, _PIECE)
        if not received:
            return
        if number in received:
            count += 1
            try:
                _write(pid, directory, f"report-{pid}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{count}")
            except (GdbextError, OSError) as error:
                say(f"gdbext: no report: {error}")


def _write(pid: int, directory: str, name: str) -> None:
    report = report_tree(pid, Options())
    write_page(report, directory, name, f"gdbext: process {pid}")
    write_private(str(Path(directory) / f"{name}.txt"), report.text)
