"""`py-deadlocks`: the verdict."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from gdbext.commands.arguments import FAIL, JSON, Option, seconds
from gdbext.commands.base import Command, Result, filter_report
from gdbext.errors import GdbextError
from gdbext.model import Report
from gdbext.render.escape import NOTHING, Safe
from gdbext.render.greenlets import greenlet_list
from gdbext.render.tasks import TaskTree
from gdbext.render.text import TextRenderer
from gdbext.snapshot import Snapshot
from gdbext.verdict.judge import verdict_of

HELP = """Show the verdict: what hangs and why, thread by thread and lock by lock.

Usage: py-deadlocks [--confirm [SECONDS]] [--fail] [--json]

The command inspects every thread of the process or core, Python or native. The system
call of a blocked thread identifies the lock that it waits for, and the lock identifies
its holder. Every cycle is shown with the source lines at which its threads wait,
followed by the threads that are stuck behind a cycle and the locks whose owner no
longer exists. If there is no deadlock, the verdict says what the program waits for: a
child process, the other end of a pipe or socket, a queue, a pool, an asyncio task that
blocks its event loop. Event loops are shown with their tasks, greenlets with their stacks.

Each statement about a holder has its evidence: "recorded" (the lock itself records the
owner), "derived" (from the interpreter's state) or "inferred" (from circumstances that
leave no other thread).

  --confirm [SECONDS]  Take two snapshots of an attached process and report only the
                       deadlocks that are in both and whose threads did not run in
                       between. GDB detaches and lets the process run for SECONDS
                       (default 1) between the snapshots. The report says how long the
                       process was paused.
  --fail               Fail after the report unless nothing is wrong. With `gdb -batch`,
                       GDB ends with status 1 if the program is stuck, with 5 if its
                       end depends on something outside, and with 3 if that cannot be
                       determined; otherwise the command is an error.
  --json               Print one JSON document (schema gdbext/1) and nothing else.

Example:
  (gdb) py-deadlocks
  gdbext: python3.11 /srv/app.py  PID 1268 on web-3, CPython 3.11.7, 2026-11-22 12:59:01Z

  DEADLOCK: 2 threads wait for each other.
  ...
  Cycle: thread 1 -> pthread rwlock 0x55d2c8f0 in libdrv.so -> thread 2; thread 2 -> the GIL -> thread 1

Related: py-threads-locks, gil-holder, rwlock-owner."""


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    report = snapshot.judged_report(lambda thread: False)
    if report.target.kind == "core" and not report.deadlocks:
        with contextlib.suppress(GdbextError):  # no thread crashed
            report = replace(report, crash=snapshot.crash(report))
    return _result(report)


def _result(report: Report) -> Result:
    involved = {number for deadlock in report.deadlocks for number in deadlock.involved}
    locks = {thread.waits.lock for thread in report.threads if thread.number in involved and thread.waits}
    shown = report
    if report.deadlocks:
        shown = replace(filter_report(report, involved, locks), verdict=verdict_of(report))
    parts = ("runtimes", "threads", "locks", "deadlocks", *(("tasks",) if report.event_loops else ()), "greenlets",
             "known", "problems")

    def text(renderer: TextRenderer) -> Safe:
        tasks = TaskTree(report, renderer, "top").render() if report.event_loops else NOTHING
        return renderer.deadlocks(tasks=tasks, greenlets=greenlet_list(report, renderer, "top"))

    return Result(shown, parts, text, report)


OPTIONS = (JSON, FAIL, Option("--confirm", nargs="?", type=seconds, const=1.0))
COMMAND = Command("py-deadlocks", HELP, OPTIONS, "nothing", _run, _result)
