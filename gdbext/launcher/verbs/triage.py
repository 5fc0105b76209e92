"""The verb `triage`: many cores (and processes), grouped by what happened.

Cores are found by their contents, not by name: ELF files of type ET_CORE, compressed or not.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gdbext.errors import GdbextError, UsageError
from gdbext.launcher.cli import add_output, add_snapshot_options, number, parse_colour, parse_options
from gdbext.launcher.output import say, write, write_file
from gdbext.launcher.pager import write_report
from gdbext.launcher.snapshots import classes
from gdbext.launcher.snapshots.classes import Class, Failure, Grouping, Json, Signature, Triage
from gdbext.launcher.snapshots.cores import is_core
from gdbext.launcher.snapshots.pool import Record, State, processors, run_all
from gdbext.launcher.snapshots.progress import Progress
from gdbext.launcher.snapshots.snapshot import Options, Snapshot, Target, end_running, take_snapshot
from gdbext.launcher.status import NO_GDB, NoGdb, Unreadable
from gdbext.model import Report
from gdbext.narrate.classes import CRASH
from gdbext.render.escape import json_line, printable
from gdbext.render.style import Style

if TYPE_CHECKING:
    from gdbext.launcher.verbs.dask import RemoteSnapshots

#: For how many classes GDB reads native variables.
_MOST_AGAIN = 20

NAME = "triage"
HELP = "many cores or processes, grouped by what happened"
DESCRIPTION = """\
Reads each core, several at a time, and groups them: cores with the same deadlock, the
same crash, or the same stacks are one class. Deadlocks come first, then crashes.
Folders are searched for cores with any name, compressed ones too. Ctrl-C stops;
--resume continues with the remaining cores."""
EXAMPLES = """\
examples:
  gdbext triage cores/
  gdbext triage cores/ --html cores.html --search /mnt/build
  gdbext triage cores/ --json | jq -r '.classes[] | "\\(.count) \\(.title)"'
  gdbext triage 4711 4712 4713      processes
  gdbext triage cores/ --state /var/tmp/triage --resume
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
    parser.add_argument("--state", metavar="DIR", type=Path,
                        help="the folder to store snapshots in, also after the run (default: in $XDG_STATE_HOME, until "
                        "the end of the run)")
    parser.add_argument("--resume", action="store_true",
                        help="continue a stopped run with the same targets or the same --state")
    add_snapshot_options(parser, without_gdb=True)
    group = parser.add_argument_group("where snapshots are taken")
    group.add_argument("--dask", metavar="ADDRESS",
                       help="let the workers of the Dask cluster with this scheduler read the cores. They need gdbext "
                       "and GDB, and the cores and folders of --search under the same paths. This machine needs Dask: "
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
    how = replace(parse_options(options), stacks="none", colour=False, native_variables=False)
    if options.dask is None:
        return _run_with_state(targets, how, options, None).status
    from gdbext.launcher.verbs.dask import remote_snapshots

    with remote_snapshots(options.dask, options.package) as remote:
        return _run_with_state(targets, how, options, remote).status


def _run_with_state(targets: Sequence[Target], how: Options, options: argparse.Namespace,
                    remote: RemoteSnapshots | None) -> Triage:
    """Take the snapshots and report; a stopped run leaves its snapshots in the state folder."""
    folder = options.state or _default_state(options.targets)
    try:
        state = State(folder)
        if not options.resume:
            state.forget()
    except OSError as error:
        raise GdbextError(f"cannot store snapshots in {printable(str(folder))}: {error.strerror}",
                          "name another folder: --state DIR") from None
    jobs = options.jobs or (processors() if remote is None else remote.jobs)
    try:
        found = take_snapshots(targets, how, jobs, state, remote)
        if (options.json or options.html is not None) and not how.without_gdb:
            found = with_native_variables(found, replace(how, native_variables=True), jobs, remote)
    except NoGdb:
        _end(state, options)
        raise
    except BaseException:
        state.close()
        say(f"gdbext triage: finished snapshots are stored in {printable(str(state.folder))}; continue with --resume")
        raise
    what = "target" if any(target.pid is not None for target in targets) else "core"
    if options.json:
        write(json_line(classes.as_document(found)))
    else:
        write_report(classes.text(found, what, Style(parse_colour(options))), options.pager)
    if options.html is not None:
        from gdbext.render.html import html_page

        write_file(options.html, html_page(classes.shown_targets(found), f"gdbext: {classes.summary(found, what)}",
                                           classes.class_rows(found)))
    _end(state, options)
    return found


def _end(state: State, options: argparse.Namespace) -> None:
    """Close the state; the default folder is removed."""
    state.close()
    if options.state is None:
        shutil.rmtree(state.folder, ignore_errors=True)


def take_snapshots(targets: Sequence[Target], options: Options, jobs: int, state: State,
                   remote: RemoteSnapshots | None = None) -> Triage:
    """Take a snapshot of each target that is not in the state, and group all targets.

    :param remote: takes the snapshots in place of this machine.
    :raises NoGdb: there is no GDB.
    """
    known = {record.file: record for record in state.load() if record.document is not None}
    records = [known[_file(target)] for target in targets if _file(target) in known]
    left = [target for target in targets if _file(target) not in known]
    progress = Progress(len(targets), len(records), "gdbext triage")
    take, end = _taking(remote)

    def work(target: Target) -> Record:
        file = _file(target)
        return _record(file, take(target, options), state)

    def done(target: Target, record: Record) -> None:
        # in a cluster, one machine may lack GDB
        if record.status == NO_GDB and remote is None:
            raise NoGdb(record.problem or "no GDB", record.hint or "")
        records.append(record)
        if target.pid is None:  # a process changes
            state.add(record)
        progress.advance(record.document is None)
        if record.document is None:
            progress.say(f"gdbext triage: {classes.failure_line(_failure(record))}")

    try:
        run_all(left, jobs, work, done, progress.tick, end)
    finally:
        progress.clear()
    return _merged(records, state)


def _taking(remote: RemoteSnapshots | None) -> tuple[Callable[[Target, Options], Snapshot], Callable[[], None]]:
    """The functions that take a snapshot, and that end those of other threads."""
    return (take_snapshot, end_running) if remote is None else (remote.take_snapshot, remote.end)


def with_native_variables(found: Triage, options: Options, jobs: int,
                          remote: RemoteSnapshots | None = None) -> Triage:
    """Let GDB read the representatives of crashes again that lack native variables: those of the largest classes.

    :param remote: takes the snapshots in place of this machine.
    """
    lacking = [each for each in found.classes if each.kind == CRASH and _lacks_variables(each.report)][:_MOST_AGAIN]
    documents: dict[str, Json] = {}

    take, end = _taking(remote)

    def work(each: Class) -> Snapshot:
        return take(Target(core=Path(each.representative)), options)

    def done(each: Class, seen: Snapshot) -> None:
        # the report by GDB has more evidence, but the class is that of the first report
        if seen.document is not None and seen.report is not None and classes.signature(seen.report).key == each.key:
            documents[each.key] = seen.document

    run_all(lacking, jobs, work, done, end=end)
    return replace(found, classes=tuple([replace(each, document=documents.get(each.key, each.document))
                                         for each in found.classes]))


def _lacks_variables(report: Report | None) -> bool:
    if report is None:
        return False
    lacks = [dict(problem.why.arguments).get("lacks") for problem in report.problems
             if problem.why.code == "made-without-gdb"]
    return any(isinstance(each, tuple) and "variables" in each for each in lacks)


def _record(file: tuple[str, int, int], seen: Snapshot, state: State) -> Record:
    if seen.document is None or seen.report is None:
        return Record(*file, problem=seen.problem or "no answer", hint=seen.hint, status=seen.status,
                      seconds=seen.seconds)
    what = classes.signature(seen.report)
    stored = state.store("\0".join(map(str, file)), seen.document)
    return Record(*file, what.kind, what.key, what.title, len(seen.report.threads), stored, seen.problem, seen.hint,
                  what.status, seen.seconds)


def _merged(records: Iterable[Record], state: State) -> Triage:
    grouping = Grouping()
    failures, incomplete = [], []
    for record in sorted(records, key=lambda each: each.path):
        if record.document is None or record.kind is None or record.key is None:
            failures.append(_failure(record))
            continue
        if record.problem is not None:
            incomplete.append(_failure(record))
        grouping.add(record.path, Signature(record.kind, record.key, record.title or "", record.status), record.threads,
                     lambda name=record.document: state.read(name))  # type: ignore[misc]
    return Triage(grouping.classes(), tuple(failures), tuple(incomplete))


def _failure(record: Record) -> Failure:
    return Failure(record.path, record.problem or "no answer", record.hint)


def _file(target: Target) -> tuple[str, int, int]:
    """The version of a target's file: its path, size and time of change."""
    if target.core is None:
        return target.name, 0, 0
    try:
        status = os.stat(target.core)
    except OSError:
        return str(target.core), 0, 0
    return str(target.core), status.st_size, status.st_mtime_ns


def _default_state(targets: Sequence[str]) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    name = "\0".join(sorted(os.path.abspath(target) for target in targets))
    return Path(home) / "gdbext" / "triage" / hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


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
