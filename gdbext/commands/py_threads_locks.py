"""`py-threads-locks`: every thread, its stack in all languages, what it holds and waits for; then the deadlocks."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from gdbext.commands.arguments import JSON, file_name, option, thread_numbers
from gdbext.commands.base import Command, Result
from gdbext.render.dot import as_dot
from gdbext.render.tasks import TaskTree
from gdbext.render.text import TextRenderer
from gdbext.snapshot import Snapshot

HELP = """Show every thread with its Python and native stack, what it holds and what it waits for; then the deadlocks.

Usage: py-threads-locks [--each] [--stacks=full|top|none] [--tasks] [--dot FILE] [--json] [THREADS]

THREADS are numbers as `info threads` shows them (1 3-5). Without them all are shown,
those first that tell most: deadlocked threads, holders of locks that others wait for,
threads stuck behind a deadlock, waiting for locks or results, running, blocked in
system calls, waiting for an event. Python frames replace the interpreter's own, with
file, line and source line; frames that only lead from one language to the other are
one line. Threads with the same stack are shown once, with their numbers and names.

  --each          show each thread by itself
  --stacks=full   whole stacks (the default)
  --stacks=top    the first frames only
  --stacks=none   no stacks
  --tasks         then the tasks of asyncio: for each event loop a tree in which a task
                  stands above those that it waits for, with its coroutines, what else
                  it waits for (a lock, a queue, a sleep), and tasks that wait for one
                  another (CPython 3.7 and later)
  --dot FILE      write the wait-for graph to FILE, for Graphviz
  --json          print one JSON document, schema gdbext/1

Example:
  (gdb) py-threads-locks --stacks=top 1-4

Related: py-deadlocks, gil-holder, rwlock-owner."""

OPTIONS = (
    JSON,
    option("--each", action="store_true", help="show each thread by itself"),
    option("--stacks", choices=("full", "top", "none"), default="full", help="how much of each stack"),
    option("--tasks", action="store_true", help="show the tasks of asyncio too"),
    option("--dot", type=file_name, metavar="FILE", help="write the wait-for graph to FILE, for Graphviz"),
)


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    chosen = thread_numbers(" ".join(arguments.rest), snapshot.numbers())
    stacks = arguments.stacks
    wanted = set(chosen)
    asyncio = snapshot.tasks() if arguments.tasks else None
    report = snapshot.report(lambda thread: stacks != "none" and thread.number in wanted)
    if asyncio is not None:
        report = replace(report, event_loops=asyncio.loops, tasks=asyncio.tasks, task_cycles=asyncio.cycles)
    involved = {number for deadlock in report.deadlocks for number in deadlock.involved}
    files = ((arguments.dot, as_dot(report)),) if arguments.dot is not None else ()
    shown = replace(report, threads=tuple(
        replace(thread, stack=(), parts=(), unmerged=None) if stacks == "none" else thread
        for thread in report.threads if thread.number in wanted or thread.number in involved))
    parts = ("runtimes", "threads", "locks", "deadlocks", *(("tasks",) if asyncio is not None else ()), "problems")

    def text(renderer: TextRenderer) -> str:
        threads = renderer.threads(chosen if arguments.rest else None, arguments.each, stacks)
        return threads if asyncio is None else f"{threads}\n{TaskTree(report, renderer, stacks).render()}"

    return Result(shown, parts, text, report, files)


COMMAND = Command("py-threads-locks", HELP, OPTIONS, "threads", _run)
