"""`gil-holder`: who holds the GIL, doing what, and who waits for it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from gdbext.commands.arguments import JSON
from gdbext.commands.base import Command, Result
from gdbext.commands.narrow import only
from gdbext.errors import GdbextError, RuntimeNotFound
from gdbext.model.kinds import GIL
from gdbext.snapshot import Snapshot

HELP = """Show who holds the GIL of every Python interpreter in the process, doing what, and who waits for it.

Usage: gil-holder [--json]

For each interpreter of each CPython runtime: whether its GIL is held, free, or
disabled (free-threaded build), and then which threads are attached, detached or
suspended; the thread that holds it with its Python and native stack; the
threads that wait for it. Nothing is run in the target.

  --json   print one JSON document, schema gdbext/1

Example:
  (gdb) gil-holder
  CPython 3.11.7 in libpython3.11.so.1.0 (layout: table)
    GIL held by thread 1 "MainThread"
      which waits for rwlock 0x5591e0c0 in libdrv.so, write-locked by thread 2

Related: py-deadlocks, py-threads-locks."""


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    gils = {holder.thread for gil in snapshot.gils() for holder in gil.holders}
    report = snapshot.report(lambda thread: thread.number in gils)
    if snapshot.unlisted is not None and not any(runtime.interpreters for runtime in report.runtimes):
        raise GdbextError(snapshot.unlisted)
    if not report.runtimes:
        raise snapshot.incomplete or RuntimeNotFound("no Python was found in the process")
    involved = gils | {waiter.thread for gil in snapshot.gils() for waiter in gil.waiters}
    if any(gil.state == "disabled" for gil in snapshot.gils()):
        # without a GIL each thread of Python may run
        involved |= {thread.number for thread in report.threads if thread.python_state is not None}
    locks = {lock.id for lock in report.locks if lock.kind == GIL}
    locks |= {thread.waits.lock for thread in report.threads if thread.number in gils and thread.waits}
    return Result(only(report, involved, locks), ("runtimes", "threads", "locks", "problems"),
                  lambda text: text.gils())


COMMAND = Command("gil-holder", HELP, (JSON,), "nothing", _run)
