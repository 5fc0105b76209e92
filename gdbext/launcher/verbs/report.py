"""The verb `report`: the verdict on one process or core, and the stacks."""

from __future__ import annotations

import argparse
import json
import sys

from gdbext.errors import UsageError
from gdbext.launcher.cli import (
    add_output,
    add_snapshot_options,
    add_target,
    add_text,
    parse_options,
    parse_target,
    say,
    write_file,
)
from gdbext.launcher.pager import write_report
from gdbext.launcher.snapshots.snapshot import take_snapshot
from gdbext.render.escape import printable

NAME = "report"
HELP = "why a process hangs, or why a core crashed"
DESCRIPTION = """\
Shows why a core crashed, then every thread with its Python and native stack, the
locks that it holds and waits for, and the deadlocks. A process is paused during the
snapshot and resumes afterwards; the report says how long it was paused."""
EXAMPLES = """\
examples:
  gdbext report 4711
  gdbext report core.gz --search /mnt/build/app
  gdbext report core --sysroot /mnt/image --json | jq .deadlocks
  gdbext report 4711 --html hang.html --dot - > hang.dot
  gdbext report 4711 --children       the process with all its descendants

exit status: 0 nothing wrong found, 1 a deadlock or a crash found, 2 bad usage,
3 no answer: the target could not be read or the report not be written, 4 no GDB
or a GDB without Python"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_target(parser)
    add_output(parser, "gdbext/1")
    parser.add_argument("--dot", metavar="FILE", help="write the wait-for graph for Graphviz; -: instead of the text")
    parser.add_argument("--children", action="store_true",
                        help="also report on all descendants of the process, and on their waits for each other")
    add_text(parser)
    add_snapshot_options(parser)


def run(options: argparse.Namespace) -> int:
    """Take a snapshot and report; return the exit status."""
    if options.json and options.dot == "-":
        raise UsageError("--json and --dot - both write to standard output", "give --dot a file")
    if options.children:
        from gdbext.launcher.processes import family

        return family.run(options)
    seen = take_snapshot(parse_target(options), parse_options(options))
    if seen.document is not None:
        if options.json:
            sys.stdout.write(json.dumps(seen.document) + "\n")
        elif options.dot != "-":
            write_report(seen.text, options.pager)
        if options.dot is not None:
            write_file(options.dot, seen.dot or "")
        if options.html is not None:
            from gdbext.render.html import html_page

            write_file(options.html, html_page([seen.for_page()], f"gdbext: {seen.target}"))
    sys.stdout.flush()
    for note in seen.notes:
        say(f"gdbext report: {note}")
    if seen.stopped is not None:
        say(f"gdbext report: {seen.target} was paused for {seen.stopped:.2f} s")
    if seen.problem is not None:
        say(f"gdbext report: {printable(seen.problem)}" + (f"; {seen.hint}" if seen.hint else ""))
    return seen.status
