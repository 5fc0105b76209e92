"""`py-deadlocks`: the verdict."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from gdbext.commands.arguments import FAIL, JSON, Option, seconds
from gdbext.commands.base import Command, Result, filter_report
from gdbext.model import Report
from gdbext.snapshot import Snapshot

HELP = """Find deadlocks and explain them, thread by thread and lock by lock.

Usage: py-deadlocks [--confirm [SECONDS]] [--fail] [--json]

The command inspects every thread of the process or core, Python or native. The system
call of a blocked thread identifies the lock that it waits for, and the lock identifies
its holder. Every cycle is shown with the source lines at which its threads wait,
followed by the threads that are stuck behind a cycle and the locks whose owner no
longer exists. If there is no deadlock, the command says so and shows the holder of the
GIL.

Each statement about a holder has its evidence: "recorded" (the lock itself records the
owner), "derived" (from the interpreter's state) or "inferred" (from circumstances that
leave no other thread).

  --confirm [SECONDS]  Take two snapshots of an attached process and report only the
                       deadlocks that are in both and whose threads did not run in
                       between. GDB detaches and lets the process run for SECONDS
                       (default 1) between the snapshots. The report says how long the
                       process was paused.
  --fail               Fail after the report if there is a deadlock. With `gdb -batch`,
                       GDB ends with status 1 then, and with status 3 if that cannot
                       be determined; otherwise the command is an error.
  --json               Print one JSON document (schema gdbext/1) and nothing else.

Example:
  (gdb) py-deadlocks
  Deadlock 1: 2 threads wait for each other (recorded)
  ...
  Cycle: thread 1 -> rwlock 0x55d2c8f0 in libdrv.so -> thread 2; thread 2 -> the GIL -> thread 1

Related: py-threads-locks, gil-holder, rwlock-owner."""


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    return _result(snapshot.report(lambda thread: False))


def _result(report: Report) -> Result:
    involved = {number for deadlock in report.deadlocks for number in deadlock.involved}
    locks = {thread.waits.lock for thread in report.threads if thread.number in involved and thread.waits}
    filtered = filter_report(report, involved, locks) if report.deadlocks else report
    return Result(filtered, ("runtimes", "threads", "locks", "deadlocks", "problems"), lambda text: text.deadlocks(),
                  report)


OPTIONS = (JSON, FAIL, Option("--confirm", nargs="?", type=seconds, const=1.0))
COMMAND = Command("py-deadlocks", HELP, OPTIONS, "nothing", _run, _result)
