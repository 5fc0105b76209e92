"""The verb `diff`: what has changed between two saved reports."""

from __future__ import annotations

import argparse

from gdbext.errors import UsageError
from gdbext.launcher.cli import parse_colour
from gdbext.launcher.output import write
from gdbext.launcher.status import status_of
from gdbext.launcher.verbs.ranks import read_json
from gdbext.render.changes import changes_json, changes_text
from gdbext.render.style import Style
from gdbext.schema.read import read_document
from gdbext.verdict.changes import compare, is_same_process

NAME = "diff"
HELP = "what has changed between two saved reports"
DESCRIPTION = """\
Compares two reports on one process that `gdbext report --json` has saved: waits that
lasted, threads that have moved, locks that changed hands, new and ended threads. Says
whether the second report proves the hang: none of its threads has run in between."""
EXAMPLES = """\
examples:
  gdbext report 4711 --json > a.json; sleep 60; gdbext report 4711 --json > b.json
  gdbext diff a.json b.json

exit status: that of `gdbext report` for the later report, 2 bad usage, 3 a document
cannot be read"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("first", metavar="A", help="a document, schema gdbext/1; - is standard input")
    parser.add_argument("second", metavar="B", help="another one")
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema gdbext-diff/1")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="as in gdbext report")


def run(options: argparse.Namespace) -> int:
    """Compare the reports; return the exit status of the later one."""
    first, second = read_document(read_json(options.first)), read_document(read_json(options.second))
    if not is_same_process(first, second):
        raise UsageError(f"the reports are about processes {first.target.pid} and {second.target.pid}, or about "
                         "different programs", "name two reports on one process")
    changes = compare(first, second)
    write(changes_json(changes) if options.json else changes_text(changes, Style(parse_colour(options))))
    return status_of(changes.after)
