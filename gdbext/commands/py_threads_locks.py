"""`py-threads-locks`: every thread, its stack in all languages, what it holds and waits for; then the deadlocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gdbext.analysis.snapshot import Snapshot
from gdbext.commands.arguments import JSON, Arguments, Option, thread_numbers
from gdbext.commands.base import Command, Result
from gdbext.render.dot import as_dot

HELP = """Show every thread with its Python and native stack, what it holds and what it waits for; then the deadlocks.

Usage: py-threads-locks [--each] [--stacks=full|top|none] [--dot FILE] [--json] [THREADS]

THREADS are numbers as `info threads` shows them (1 3-5); without them, all. Python
frames stand in place of the interpreter's own, with file, line and source line.
Threads with the same stack are shown once, with their numbers.

  --each          show each thread by itself
  --stacks=full   whole stacks (the default)
  --stacks=top    the first frames only
  --stacks=none   no stacks
  --dot FILE      write the wait-for graph to FILE, for Graphviz
  --json          print one JSON document, schema gdbext/1

Example:
  (gdb) py-threads-locks --stacks=top 1-4

Related: py-deadlocks, gil-holder, rwlock-owner."""

OPTIONS = (
    JSON,
    Option("each", "show each thread by itself"),
    Option("stacks", "how much of each stack", choices=("full", "top", "none")),
    Option("dot", "write the wait-for graph to FILE, for Graphviz", value="FILE"),
)


def _run(snapshot: Snapshot, arguments: Arguments, addresses: Sequence[int]) -> Result:
    chosen = thread_numbers(" ".join(arguments.rest), snapshot.numbers())
    stacks = arguments.get("stacks", "full")
    wanted = set(chosen)
    report = snapshot.report(lambda thread: stacks != "none" and thread.number in wanted)
    involved = {number for deadlock in report.deadlocks for number in deadlock.involved}
    files = (("dot", as_dot(report)),) if "dot" in arguments else ()
    shown = replace(report, threads=tuple(thread for thread in report.threads
                                          if thread.number in wanted or thread.number in involved))
    parts = ("runtimes", "threads", "locks", "deadlocks", "problems")
    return Result(shown, parts, lambda text: text.threads(chosen, "each" in arguments, stacks), report, files)


COMMAND = Command("py-threads-locks", HELP, OPTIONS, "threads", _run)
