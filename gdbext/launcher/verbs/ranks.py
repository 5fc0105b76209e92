"""The verb `ranks`: which rank of a job the others wait for, and what it does instead."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gdbext.errors import UsageError
from gdbext.inferior.proc.ranks import roots_of_job
from gdbext.inferior.proc.status import process_tree
from gdbext.launcher.cli import add_output, add_snapshot_options, add_text, parse_options
from gdbext.launcher.output import say, write, write_file
from gdbext.launcher.pager import write_report
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.status import Unreadable
from gdbext.render.escape import printable

if TYPE_CHECKING:
    from gdbext.launcher.job import Look

NAME = "ranks"
HELP = "which rank of a job the others wait for"
DESCRIPTION = """\
Reads all ranks of a job (torch.distributed, MPI) that run on this machine, and says
which operation does not end, which ranks wait in it, which rank has not called it, and
what that rank does instead. A PID is that of the launcher (torchrun, mpirun), whose
descendants are the ranks, or of a rank. Or name the cores of all ranks, or documents
that `gdbext ranks --json` or `gdbext report --json` has written on each machine."""
EXAMPLES = """\
examples:
  gdbext ranks 4711               the job of launcher 4711
  gdbext ranks 4720 4721 4722     these ranks
  gdbext ranks 4711 --json | jq .verdict
  gdbext ranks cores/*            the cores of all ranks
  gdbext ranks host1.json host2.json     the ranks of several machines

exit status: 0 the job works, 1 it does not go on by itself, 2 bad usage, 3 no answer,
5 ranks wait for one that may still act"""

#: The largest document.
_MOST_BYTES = 256 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("targets", metavar="PID|CORE|FILE.json", nargs="+",
                        help="the PIDs of a launcher or of ranks, or cores, or documents")
    add_output(parser, "gdbext-ranks/1")
    add_text(parser)
    add_snapshot_options(parser, without_gdb=True)


def run(options: argparse.Namespace) -> int:
    """Look at the job and report; return the exit status."""
    from gdbext.launcher import children, job, job_page

    how = parse_options(options)
    pids = [int(text) for text in options.targets if text.isdecimal()]
    if pids and len(pids) < len(options.targets):
        raise UsageError("the targets are processes and files", "name only PIDs, or only cores and documents")
    if len(pids) == 1:
        # a rank stands for its job
        pids = roots_of_job(pids[0]) or pids
    found = job.look(pids, how) if pids else _look_at_files(options.targets, how)
    if found is None and len(pids) == 1 and len(children.without_own(dict(process_tree(pids[0])))) > 1:
        # an engine: processes that wait for messages of each other
        return children.report_on_tree(pids[0], options)
    if found is None:
        raise Unreadable("no rank of a job is among these processes and their descendants",
                         "name the process that has started them")
    if how.redact:
        from gdbext.commands.answer import without_private

        found = without_private(found)
    if options.json:
        write(job_page.document(found))
    else:
        write_report(job_page.text(found), options.pager)
    if options.html is not None:
        write_file(options.html, job_page.html(found))
    if found.within is not None:
        say(f"gdbext ranks: {len(found.members):,} ranks were read within {found.within:.2f} s")
    return job_page.STATUS[found.job.kind]


def _look_at_files(names: Sequence[str], how: Options) -> Look:
    from gdbext.launcher import job

    documents: list[object] = []
    cores: list[Target] = []
    for name in names:
        if name.endswith(".json"):
            documents.append(read_json(name))
        else:
            cores.append(Target(core=Path(name)))
    return job.look_at_reports(cores, documents, how)


def read_json(name: str) -> object:
    """Read a file of JSON; ``-`` is standard input.

    :raises Unreadable: it cannot be read, or is not one document.
    """
    try:
        with open("/dev/stdin" if name == "-" else name, encoding="utf-8") as file:
            return json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not one JSON document"
        raise Unreadable(f"{printable(name, 300)} cannot be read: {problem}", "write it with --json") from None
