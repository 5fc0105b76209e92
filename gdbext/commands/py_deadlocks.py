"""`py-deadlocks`: the verdict."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from gdbext.commands.arguments import JSON, option, seconds
from gdbext.commands.base import Command, Result
from gdbext.commands.narrow import only
from gdbext.model import Report
from gdbext.snapshot import Snapshot

HELP = """Find deadlocks and explain them, thread by thread and lock by lock.

Usage: py-deadlocks [--confirm [SECONDS]] [--json]

Looks at every thread of the process or core, Python or not, finds out from its
system call which lock it waits for, reads from the lock who holds it, and shows
every cycle with the source lines where its threads wait; then the threads that
are stuck behind a cycle, and locks whose owner no longer exists. When there is no
deadlock it says so, and who holds the GIL.

How a statement is known: "recorded", the lock itself names its owner; "derived",
the interpreter's state does; "inferred", circumstance leaves no other.

  --confirm [SECONDS]  of a process that GDB is attached to: look twice, let it run
                       in between for so long (1 s), and keep the deadlocks that
                       stayed and none of whose threads ran; GDB is detached while
                       it runs. How long it was stopped is told
  --json               print one JSON document, schema gdbext/1

Example:
  (gdb) py-deadlocks
  Deadlock 1: 2 threads wait for each other (recorded)
  ...
  Cycle: thread 1 -> rwlock 0x55d2c8f0 in libdrv.so -> thread 2; thread 2 -> the GIL -> thread 1

Related: py-threads-locks, gil-holder, rwlock-owner."""


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    return _result(look(snapshot))


def look(snapshot: Snapshot) -> Report:
    """The report that the verdict is made of."""
    return snapshot.report(lambda thread: False)


def _result(report: Report) -> Result:
    involved = {number for deadlock in report.deadlocks for number in deadlock.involved}
    locks = {thread.waits.lock for thread in report.threads if thread.number in involved and thread.waits}
    parts = ("runtimes", "threads", "locks", "deadlocks", "problems")
    narrowed = only(report, involved, locks) if report.deadlocks else report
    return Result(narrowed, parts, lambda text: text.deadlocks(), report)


OPTIONS = (
    JSON,
    option("--confirm", nargs="?", type=seconds, const=1.0, metavar="SECONDS", help="look twice, and keep what stayed"),
)
COMMAND = Command("py-deadlocks", HELP, OPTIONS, "nothing", _run, _result)
