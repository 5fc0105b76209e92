"""`gil-holder`: the state of each GIL, its holder's stack, and the threads waiting for it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from gdbext.commands.arguments import JSON
from gdbext.commands.base import Command, Result, filter_report
from gdbext.errors import GdbextError, RuntimeNotFound
from gdbext.model.kinds import GIL
from gdbext.snapshot import Snapshot

HELP = """Show the holder of the GIL, its stack, and the threads waiting for the GIL.

Usage: gil-holder [--json]

For each interpreter of each CPython runtime in the process, this command shows
whether the GIL is held, free, or disabled (free-threaded build). For a held GIL it
shows the holder with its Python and native stack, and the waiting threads. For a
disabled GIL it shows which threads are attached, detached or suspended.
The command does not run code in the target.

  --json   Print one JSON document (schema gdbext/1) and nothing else.

Example:
  (gdb) gil-holder
  CPython 3.11.7 in libpython3.11.so.1.0 (layout: table)
    GIL held by thread 1 "MainThread"
      which waits for rwlock 0x5591e0c0 in libdrv.so, write-locked by thread 2

Related: py-deadlocks, py-threads-locks."""


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    holders = {holder.thread for gil in snapshot.gils() for holder in gil.holders}
    report = snapshot.report(lambda thread: thread.number in holders)
    if snapshot.unlisted is not None and not any(runtime.interpreters for runtime in report.runtimes):
        raise GdbextError(snapshot.unlisted)
    if not report.runtimes:
        raise snapshot.incomplete or RuntimeNotFound("no Python was found in the process")
    involved = holders | {waiter.thread for gil in snapshot.gils() for waiter in gil.waiters}
    if any(gil.state == "disabled" for gil in snapshot.gils()):
        # without a GIL every Python thread may run
        involved |= {thread.number for thread in report.threads if thread.python_state is not None}
    locks = {lock.id for lock in report.locks if lock.kind == GIL}
    locks |= {thread.waits.lock for thread in report.threads if thread.number in holders and thread.waits}
    return Result(filter_report(report, involved, locks), ("runtimes", "threads", "locks", "problems"),
                  lambda text: text.gils())


COMMAND = Command("gil-holder", HELP, (JSON,), "nothing", _run)
