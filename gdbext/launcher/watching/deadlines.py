"""The process beside a test session that reports on a test which takes too long (`gdbext.launcher.pytest_plugin`).

It is a process of its own, so it works where native code holds the GIL forever. It reads one JSON object per line from
standard input: ``{"begin": NUMBER, "deadline": SECONDS, "name": TEST}`` with a time of the monotonic clock, and
``{"end": NUMBER, "wait": true}``. It answers only an end with ``wait``, by one line with the members of `Answer`. It
ends with the session.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from gdbext.errors import GdbextError
from gdbext.launcher.output import write, write_to_stderr
from gdbext.launcher.snapshots.options import Options
from gdbext.launcher.watching.tree_report import members, report_tree, send, write_page
from gdbext.render.escape import as_text, cleaned, concatenated, json_line, printable

#: How often a test is interrupted after the report, and how long it may take to end each time, in seconds. Then the
#: report goes to standard error. asyncio.Runner makes the first SIGINT a cancellation, which a blocked loop never runs.
INTERRUPTS, _GRACE = 2, 2.5
_PIECE = 1 << 16


class Answer(NamedTuple):
    """What happened at a deadline.

    `text` is None if there was no report. `verdict` is that of the report, on one line. `page` is the path of the page.
    `interrupts` says how often SIGINT was sent.
    """

    text: str | None = None
    page: str | None = None
    interrupts: int = 0
    verdict: str | None = None


def main(pid: int, folder: str | None, ends: bool) -> None:
    """Wait for deadlines until the session ends.

    :param pid: the process that runs the tests.
    :param folder: where to write pages.
    :param ends: whether the process is ended after a report.
    """
    os.set_blocking(0, False)
    _Watcher(pid, folder, ends).run()


class _Watcher:
    def __init__(self, pid: int, folder: str | None, ends: bool) -> None:
        self._pid, self._folder, self._ends = pid, folder, ends
        self._unread = b""
        self._closed = False
        self._number, self._name = 0, ""
        #: When the test must have ended, and when its report is printed; None: never.
        self._deadline: float | None = None
        self._print_at: float | None = None
        self._wants_answer = False
        self._answer = Answer()

    def run(self) -> None:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        with contextlib.suppress(AttributeError, OSError):  # before Python 3.9 or Linux 5.3
            # children of the session may keep its end of the pipe open
            poll.register(os.pidfd_open(self._pid), select.POLLIN)
        while not self._closed and os.getppid() == self._pid:
            times = [at for at in (self._deadline, self._print_at) if at is not None]
            left = min(times, default=None)
            # rounded up: a deadline in the next millisecond must not become a loop
            poll.poll(None if left is None else max(math.ceil((left - time.monotonic()) * 1000), 0))
            self._receive()
            now = time.monotonic()
            if self._deadline is not None and now >= self._deadline:
                self._deadline = None
                self._report()
            elif self._print_at is not None and now >= self._print_at:
                self._interrupt_or_print()
            if self._wants_answer:
                self._wants_answer = False
                self._write_answer()

    def _receive(self) -> None:
        """Read the messages that have arrived."""
        while True:
            try:
                piece = os.read(0, _PIECE)
            except BlockingIOError:
                break
            if not piece:
                self._closed = True
                break
            self._unread += piece
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, message: Mapping[str, Any]) -> None:
        if "begin" in message:
            self._number, self._deadline, self._name = message["begin"], message["deadline"], message["name"]
            self._print_at, self._answer = None, Answer()
        elif message["end"] == self._number:
            # an answer is wanted if the deadline has passed
            self._wants_answer = message["wait"]
            self._print_at = None
            if not self._wants_answer:
                self._deadline = None
            self._number = 0

    def _report(self) -> None:
        processes = members(self._pid)
        page = verdict = None
        try:
            report = report_tree(self._pid, Options())
            text: str = report.text
            verdict = report.verdict()
            if self._folder is not None:
                page = write_page(report, self._folder, f"{self._name}-{self._pid}", f"gdbext: {self._name}")
        except (GdbextError, OSError) as error:
            hint = getattr(error, "hint", "")
            text = f"no report: {printable(str(error))}{'; ' if hint else ''}{hint}\n"
        self._answer = Answer(text, page, verdict=verdict)
        self._receive()
        if not self._number or self._closed:  # the test has ended meanwhile
            return
        if self._ends:
            self._print()
            send(signal.SIGKILL, processes.items())
            return
        self._interrupt_or_print()

    def _interrupt_or_print(self) -> None:
        if self._answer.interrupts == INTERRUPTS:
            self._print_at = None
            self._print()
            return
        # the main thread raises KeyboardInterrupt, unless native code keeps it from that
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGINT)
        self._answer = self._answer._replace(interrupts=self._answer.interrupts + 1)
        self._print_at = time.monotonic() + _GRACE

    def _print(self) -> None:
        """Print the report where nothing captures it."""
        page = [f"gdbext: the page is {self._answer.page}"] if self._answer.page else []
        end = "; the process is ended now" if self._ends else " and has not ended since"
        with contextlib.suppress(OSError, ValueError):
            write_to_stderr(concatenated([as_text(["", f"gdbext: {printable(self._name, 300)} took too long{end}"]),
                                       cleaned(self._answer.text or ""), as_text(page)]))

    def _write_answer(self) -> None:
        with contextlib.suppress(OSError):
            write(json_line(self._answer._asdict()))
            sys.stdout.flush()
        self._answer = Answer()
