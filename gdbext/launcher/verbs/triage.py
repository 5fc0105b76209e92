"""The verb `triage`: many cores (and processes), grouped by what happened.

Cores are found by their contents, not by name: ELF files of type ET_CORE, compressed or not.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gdbext.errors import UsageError
from gdbext.launcher.cli import add_output, add_snapshot_options, number, parse_colour, parse_options
from gdbext.launcher.output import say, write, write_file
from gdbext.launcher.pager import write_report
from gdbext.launcher.snapshots import classes
from gdbext.launcher.snapshots.classes import Failure, Grouping, Signature, Triage
from gdbext.launcher.snapshots.cores import is_core
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.pool import processors, run_all
from gdbext.launcher.snapshots.progress import Progress
from gdbext.launcher.snapshots.snapshot import Snapshot, end_running, take_snapshot
from gdbext.launcher.status import NO_GDB, NoGdb, Unreadable
from gdbext.model import Report
from gdbext.render.escape import as_text, concatenated, json_line, printable
from gdbext.render.style import Style

if TYPE_CHECKING:
    from gdbext.launcher.job import Look
    from gdbext.launcher.verbs.dask import RemoteSnapshots

#: Most reports on ranks that are kept.
_MOST_RANKS = 1024

NAME = "triage"
HELP = "many cores or processes, grouped by what happened"
DESCRIPTION = """\
Reads each core, several at a time, and groups them: cores with the same deadlock, the
same crash, or the same stacks are one class. Deadlocks come first, then crashes.
Folders are searched for cores with any name, compressed ones too. After Ctrl-C the
cores that have been read are reported."""
EXAMPLES = """\
examples:
  gdbext triage cores/
  gdbext triage cores/ --html cores.html --search /mnt/build
  gdbext triage cores/ --json | jq -r '.classes[] | "\\(.count) \\(.title)"'
  gdbext triage 4711 4712 4713      processes
  gdbext triage /shared/cores --dask tcp://scheduler:8786

exit status: 0 nothing wrong found, 1 a deadlock, a crash or another state that does
not end by itself, 2 bad usage, 3 a target could not be read, 4 no GDB or a GDB without
Python, 5 a hang that may end when something outside of the process happens; of
several targets, the first of 1, 5, 4, 3, 0 that occurs"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("targets", metavar="DIR|CORE|PID", nargs="+", help="folders with cores, cores, and processes")
    parser.add_argument("--jobs", metavar="N", type=number, default=None,
                        help="how many snapshots are taken at a time (default: one for each processor; with --dask, "
                        "for each thread of the workers)")
    add_output(parser, classes.SCHEMA)
    add_snapshot_options(parser, without_gdb=True)
    group = parser.add_argument_group("where snapshots are taken")
    group.add_argument("--dask", metavar="ADDRESS",
                       help="let the workers of the Dask cluster with this scheduler read the cores. They need "
                       "gdbext, and the cores and folders of --search under the same paths. This machine needs Dask: "
                       "pip install 'gdbext[dask]'")
    group.add_argument("--package", metavar="DIR", help="with --dask: a folder that contains the package gdbext on "
                       "the machines of the workers, if Python does not find it")


def run(options: argparse.Namespace) -> int:
    """Take the snapshots and report; return the exit status."""
    targets = list(find_targets(options.targets))
    if options.dask is not None and any(target.pid is not None for target in targets):
        raise UsageError("--dask needs cores: the workers of a cluster do not see the processes of this machine",
                         "leave it out for processes")
    if options.package is not None and options.dask is None:
        raise UsageError("--package needs --dask", "leave it out")
    if not targets:
        raise Unreadable(f"no core was found in {', '.join(map(printable, options.targets))}",
                         "name folders that have some, or the cores themselves")
    # only the documents are used, and classes do not depend on values
    how = replace(parse_options(options), stacks="none", colour=False)
    if options.dask is None:
        return _report(targets, how, options, None)
    from gdbext.launcher.verbs.dask import remote_snapshots

    with remote_snapshots(options.dask, options.package) as remote:
        return _report(targets, how, options, remote)


def _report(targets: Sequence[Target], how: Options, options: argparse.Namespace,
            remote: RemoteSnapshots | None) -> int:
    """Take the snapshots and report, after Ctrl-C on those that were finished; return the exit status."""
    jobs = options.jobs or (processors() if remote is None else remote.jobs)
    read = Collected(len(targets))
    try:
        read.take(targets, how, jobs, remote)
        found = read.grouped()
    except KeyboardInterrupt:
        if read.count:
            say(f"gdbext triage: interrupted; {read.count:,} of {len(targets):,} were read")
            _write(read.grouped(), targets, options)
        raise
    _write(found, targets, options, None if remote is not None or options.json else _job_of(targets, read, how))
    return found.status


def _job_of(targets: Sequence[Target], read: Collected, how: Options) -> Look | None:
    """The job whose ranks the targets are, if it does not go on; None otherwise."""
    if len(read.ranks) < 2:
        return None
    from gdbext.launcher import job

    # processes are read once more: what they do belongs together only at one moment
    pids = [target.pid for target in targets if target.pid is not None]
    found = job.look(pids, how) if pids else job.look_at_known(read.ranks)
    return found if found is not None and found.job.kind in ("hung", "waits") else None


def _write(found: Triage, targets: Sequence[Target], options: argparse.Namespace, job: Look | None = None) -> None:
    what = "target" if any(target.pid is not None for target in targets) else "core"
    if options.json:
        write(json_line(classes.as_document(found)))
    else:
        text = classes.text(found, what, Style(parse_colour(options)))
        if job is not None:
            from gdbext.launcher import job_page

            text = concatenated([job_page.head(job), as_text([""]), text])
        write_report(text, options.pager)
    if options.html is not None:
        from gdbext.render.html import html_page

        write_file(options.html, html_page(classes.shown_targets(found), f"gdbext: {classes.summary(found, what)}",
                                           classes.class_rows(found)))


class Collected:
    """The snapshots of a run, grouped as they are finished. It keeps one document of each class.

    :param total: how many targets there are.
    """

    def __init__(self, total: int) -> None:
        self.count = 0
        #: The reports on ranks of a job.
        self.ranks: list[Report] = []
        self._total = total
        self._grouping = Grouping()
        self._failures: list[Failure] = []
        self._incomplete: list[Failure] = []

    def take(self, targets: Sequence[Target], options: Options, jobs: int,
             remote: RemoteSnapshots | None = None) -> None:
        """Take a snapshot of each target.

        :param remote: takes the snapshots in place of this machine.
        :raises NoGdb: there is no GDB.
        """
        progress = Progress(self._total, name="gdbext triage")
        take, end = _taking(remote)

        def work(target: Target) -> tuple[Snapshot, Signature | None]:
            seen = take(target, options)
            return seen, classes.signature(seen.report) if seen.report is not None else None

        def done(target: Target, made: tuple[Snapshot, Signature | None]) -> None:
            seen, signature = made
            # in a cluster, one machine may lack GDB
            if seen.status == NO_GDB and remote is None:
                raise NoGdb(seen.problem or "no GDB", seen.hint or "")
            self.count += 1
            failure = self._add(target, seen, signature)
            progress.advance(failure is not None)
            if failure is not None:
                progress.say(f"gdbext triage: {classes.failure_line(failure)}")

        try:
            run_all(targets, jobs, work, done, progress.tick, end)
        finally:
            progress.clear()

    def _add(self, target: Target, seen: Snapshot, signature: Signature | None) -> Failure | None:
        name = seen.target
        failure = Failure(name, seen.problem or "no answer", seen.hint)
        if signature is None or seen.report is None:
            self._failures.append(failure)
            return failure
        rank = seen.report.rank
        if rank is not None and rank.identity.rank is not None and len(self.ranks) < _MOST_RANKS:
            self.ranks.append(seen.report)
        if seen.problem is not None:
            self._incomplete.append(failure)
        self._grouping.add(name, signature, len(seen.report.threads), seen.document)
        return None

    def grouped(self) -> Triage:
        """The classes of the targets that were read so far."""
        failures, incomplete = (tuple(sorted(found, key=lambda each: each.target))
                                for found in (self._failures, self._incomplete))
        return Triage(self._grouping.classes(), failures, incomplete)


def _taking(remote: RemoteSnapshots | None) -> tuple[Callable[[Target, Options], Snapshot], Callable[[], None]]:
    """The functions that take a snapshot, and that end those of other threads."""
    return (take_snapshot, end_running) if remote is None else (remote.take_snapshot, remote.end)


# -- finding cores -------------------------------------------------------------------------------------------


def find_targets(names: Iterable[str]) -> Iterator[Target]:
    """The processes and cores that a command line names, each once; cores of a folder in the order of their paths.

    A named file counts as a core whatever it contains; the report says if it is not one.

    :raises Unreadable: a name is neither.
    """
    seen = set()
    for name in names:
        path = Path(name)
        if path.is_dir():
            found = [Target(core=core) for core in find_cores(path)]
        elif name.isdecimal():
            found = [Target(pid=int(name))]
        elif path.exists():
            found = [Target(core=path)]
        else:
            raise Unreadable(f"{printable(name)} is not a folder, a file or a PID", "see gdbext triage --help")
        for target in found:
            if target.name not in seen:
                seen.add(target.name)
                yield target


def find_cores(folder: Path) -> Iterator[Path]:
    """Find the cores in a folder and its subfolders by content. Links to folders are not followed."""
    for where, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = Path(where, name)
            if is_core(path):
                yield path
