"""The verb `known`: the known bugs that reports are compared with."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from gdbext.errors import UsageError
from gdbext.known.fingerprint import Fingerprint, fingerprints, read_file
from gdbext.launcher.output import write, write_line
from gdbext.render.escape import as_text, json_line

NAME = "known"
HELP = "the known bugs that reports name"
DESCRIPTION = """\
Lists the known bugs that a report can name, or shows one of them with the facts by
which it is recognised and the versions that were tried."""
EXAMPLES = """\
examples:
  gdbext known
  gdbext known python/cpython#115634
  gdbext known --json

exit status: 0, 2 bad usage: no such bug"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("bug", metavar="ID", nargs="?", help="show only this bug, with its facts")
    parser.add_argument("--json", action="store_true", help="the files of the bugs, as a list")


def run(options: argparse.Namespace) -> int:
    """Print the bugs; return the exit status."""
    bugs = {bug.id: bug for bug in fingerprints()}
    if options.bug is not None and options.bug not in bugs:
        near = get_close_matches(options.bug, bugs, 1, 0.3)
        raise UsageError(f"no known bug has the id {options.bug}", f"did you mean {near[0]}?" if near else
                         "gdbext known lists them")
    chosen = list(bugs.values()) if options.bug is None else [bugs[options.bug]]
    if options.json:
        write_line(json_line([read_file(bug) for bug in chosen]))
    elif options.bug is None:
        write(as_text(f"{bug.id}: {bug.title}; fixed in {bug.package} {', '.join(bug.ends)}" for bug in chosen))
    else:
        write(as_text(_lines(chosen[0])))
    return 0


def _lines(bug: Fingerprint) -> Iterator[str]:
    yield f"{bug.id}: {bug.title}"
    yield bug.url
    yield f"{bug.package} since {bug.since}; tried on {bug.confirmed}: hangs with {', '.join(bug.hangs)}, ends with " \
          f"{', '.join(bug.ends)}"
    if bug.workaround:
        yield f"Without an upgrade: {bug.workaround}"
    yield "Facts:"
    facts: dict[str, Any] = read_file(bug)["facts"]
    for name, value in facts.items():
        yield f"  {name}: {json.dumps(value)}"
