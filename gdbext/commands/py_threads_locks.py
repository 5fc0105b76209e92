"""`py-threads-locks`: the verdict, then every thread with its stack and the locks it holds and waits for."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from gdbext.commands.arguments import JSON, Option, file_name, thread_numbers
from gdbext.commands.base import Command, Result
from gdbext.render.crash import crash_text
from gdbext.render.dot import as_dot
from gdbext.render.escape import NOTHING, Safe
from gdbext.render.greenlets import greenlet_list
from gdbext.render.tasks import TaskTree
from gdbext.render.text import TextRenderer
from gdbext.snapshot import Snapshot
from gdbext.verdict.judge import verdict_of

HELP = """Show the verdict, then every thread with its Python and native stack and its locks.

Usage: py-threads-locks [--each] [--stacks=full|top|none] [--tasks] [--crash] [--dot FILE] [--json]
                        [THREADS]

THREADS is a list of thread numbers as `info threads` shows them (1 3-5). Without it,
all threads are shown in this order: deadlocked threads, holders of locks that other
threads wait for, threads stuck behind a deadlock, threads waiting for locks or results,
running threads, threads blocked in system calls, threads waiting for an event.
Python frames, with file, line and source line, replace the interpreter's own frames,
and a transition between languages is one line. Threads with the same stack are shown
once, with all their numbers and names.

  --each          Show each thread separately.
  --stacks=full   Show complete stacks (default).
  --stacks=top    Show only the innermost frames.
  --stacks=none   Show no stacks.
  --tasks         Also show asyncio tasks (CPython 3.7 and later): a tree for each event
                  loop, in which a task is the parent of the tasks that it awaits. Each
                  has its coroutines and what it waits for (a lock, a queue, a sleep).
                  Cycles of tasks follow. Also show greenlets (of gevent, for example).
  --crash         Also explain the crash, if there is one, as py-crash does.
  --dot FILE      Write the wait-for graph to FILE in Graphviz format.
  --json          Print one JSON document (schema gdbext/1) and nothing else.

Example:
  (gdb) py-threads-locks --stacks=top 1-4

Related: py-deadlocks, gil-holder, rwlock-owner."""

OPTIONS = (
    JSON,
    Option("--each", action="store_true"),
    Option("--stacks", choices=("full", "top", "none"), default="full"),
    Option("--tasks", action="store_true"),
    Option("--crash", action="store_true"),
    Option("--dot", type=file_name),
)


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    chosen = thread_numbers(" ".join(arguments.rest), snapshot.numbers())
    stacks = arguments.stacks
    wanted = set(chosen)
    report = snapshot.judged_report(lambda thread: stacks != "none" and thread.number in wanted)
    report = snapshot.with_crash(report) if arguments.crash else report
    involved = {number for deadlock in report.deadlocks for number in deadlock.involved}
    files = ((arguments.dot, as_dot(report)),) if arguments.dot is not None else ()
    shown = replace(report, verdict=verdict_of(report), threads=tuple(
        replace(thread, stack=(), parts=(), unmerged=None) if stacks == "none" else thread
        for thread in report.threads if thread.number in wanted or thread.number in involved))
    has_tasks = arguments.tasks or bool(report.event_loops)
    parts = ("runtimes", "threads", "locks", "deadlocks", *(("tasks",) if has_tasks else ()), "greenlets",
             *(("crash",) if arguments.crash else ()), "known", "problems")

    def text(renderer: TextRenderer) -> Safe:
        tasks = TaskTree(report, renderer, stacks).render() if arguments.tasks else NOTHING
        greenlets = greenlet_list(report, renderer, stacks) if arguments.tasks else NOTHING
        crash = crash_text(renderer, report.crash) if report.crash is not None else NOTHING
        return renderer.threads(chosen if arguments.rest else None, arguments.each, stacks, crash, tasks, greenlets)

    return Result(shown, parts, text, report, files)


COMMAND = Command("py-threads-locks", HELP, OPTIONS, "threads", _run)
