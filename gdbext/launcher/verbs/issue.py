"""The verb `issue`: a report as one block that can be pasted into an issue."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gdbext import __version__
from gdbext.commands.answer import redacted
from gdbext.errors import UsageError
from gdbext.inferior.proc.installed import distribution, packages
from gdbext.inferior.proc.maps import read_maps
from gdbext.inferior.proc.status import living_task
from gdbext.launcher.cli import add_snapshot_options, parse_options
from gdbext.launcher.output import say, write
from gdbext.launcher.snapshots.classes import signature
from gdbext.launcher.snapshots.options import Target
from gdbext.launcher.snapshots.snapshot import Snapshot, take_snapshot
from gdbext.launcher.status import status_of
from gdbext.launcher.targets import add_target, parse_target
from gdbext.launcher.verbs.ranks import read_json
from gdbext.model import PyFrame, Report
from gdbext.narrate import issue as words
from gdbext.redact import short_path
from gdbext.render.issue import issue_block
from gdbext.schema.read import read_document

NAME = "issue"
HELP = "a report as one block for an issue"
DESCRIPTION = """\
Prints one fenced block of at most 60 lines and 6 kB that can be pasted into an issue:
versions, the verdict with its threads and evidence, one line for each other group of
threads, and what is not known. It contains nothing private: see --redact in the
documentation; its last line says what was taken out."""
EXAMPLES = """\
examples:
  gdbext issue 4711
  gdbext issue core.4711
  gdbext issue found.json           a report that --json has saved
  gdbext issue 4711 --tree          the process with all its descendants
  gdbext issue 4711 --source        with source lines

exit status: that of `gdbext report`"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_target(parser)
    parser.add_argument("--tree", action="store_true", help="the process with all its descendants")
    parser.add_argument("--no-redact", action="store_false", dest="redact", help="take nothing out")
    add_snapshot_options(parser, without_gdb=True)
    parser.set_defaults(redact=True)


def run(options: argparse.Namespace) -> int:
    """Print the block; return the exit status."""
    if options.target is not None and options.target.endswith(".json"):
        report = read_document(read_json(options.target))
        _write(report, options, (), (), {})
        return status_of(report)
    target, how = parse_target(options), parse_options(options)
    if options.tree:
        return _tree(target, options)
    seen = take_snapshot(target, replace(how, redact=False))
    report = _report(seen)
    # before anything is taken out: versions are found by the paths of files
    _write(report, options, *_versions(report, str(options.sysroot or "")),
           {(file, line): text for file, line, text in seen.source} if options.source or not options.redact else {})
    if seen.problem is not None:
        say(f"gdbext issue: {seen.problem}" + (f"; {seen.hint}" if seen.hint else ""))
    return seen.status


def _report(seen: Snapshot) -> Report:
    if seen.report is None:
        raise seen.failure()
    return seen.report


def _tree(target: Target, options: argparse.Namespace) -> int:
    from gdbext.launcher import children

    if target.pid is None:
        raise UsageError("--tree needs a PID: a core does not name child processes", "leave it out")
    tree = children.snapshot_tree(target.pid, parse_options(options))
    root = _report(tree.snapshots[target.pid])
    _write(root, options, *_versions(root, "", is_private=True), {},
           children.tree_lines(tree, tree.triage))
    return tree.status


def _write(report: Report, options: argparse.Namespace, system: Sequence[str], found: Sequence[tuple[str, str]],
           source: dict[tuple[str, int], str], processes: Sequence[str] = ()) -> None:
    made = signature(report)
    if options.redact:
        report = redacted(report, bool(source))
        source = _with_short_paths(source)
    write(issue_block(report, [words.versions(report, __version__, system), words.packages(found)],
                      words.class_line(made.kind, made.key), lambda file, line: source.get((file, line)), processes))


def _with_short_paths(source: dict[tuple[str, int], str]) -> dict[tuple[str, int], str]:
    """Source lines by the paths of a redacted report, without those of several files with one such path."""
    made: dict[tuple[str, int], set[str]] = {}
    for (file, line), text in source.items():
        made.setdefault((short_path(file), line), set()).add(text)
    return {place: texts.pop() for place, texts in made.items() if len(texts) == 1}


def _versions(report: Report, sysroot: str, is_private: bool = False) -> tuple[list[str], list[tuple[str, str]]]:
    """The kernel and the distribution, and the packages on the stacks with their versions.

    :param sysroot: the folder that contains the files of a core.
    :param is_private: whether the report has no whole paths any more.
    """
    pid = report.target.pid if report.target.kind == "live" else None
    root = f"/proc/{living_task(pid)}/root" if pid is not None else sysroot
    system = os.uname()
    names = [f"{system.sysname} {system.release}"] if pid is not None else []
    name = distribution(root) if pid is not None or sysroot else None
    found = [] if is_private else packages(_files(report), root, report.target.time if pid is None else None)
    return [*names, *([name] if name else [])], found


def _files(report: Report) -> Iterator[str]:
    """The paths of Python files on the stacks, and those of loaded libraries with native frames."""
    stacks = [*(thread.stack for thread in report.threads), *(task.stack for task in report.tasks),
              *(greenlet.stack for greenlet in report.greenlets)]
    yield from (frame.file for stack in stacks for frame in stack if isinstance(frame, PyFrame))
    modules = {frame.module for stack in stacks for frame in stack if not isinstance(frame, PyFrame)}
    regions = read_maps(report.target.pid) if report.target.kind == "live" else None
    yield from (region.path for region in regions or () if region.path is not None
                and os.path.basename(region.path) in modules)
