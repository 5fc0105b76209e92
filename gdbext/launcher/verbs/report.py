"""The verb `report`: the verdict on one process or core, and the stacks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Union

import gdbext.model
from gdbext.errors import UsageError
from gdbext.inferior.proc.ranks import roots_of_job
from gdbext.launcher.api import Report, report_on
from gdbext.launcher.cli import (
    add_output,
    add_snapshot_options,
    add_text,
    parse_colour,
    parse_options,
)
from gdbext.launcher.output import say, write, write_file
from gdbext.launcher.pager import write_report
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.progress import Progress
from gdbext.launcher.status import FOUND, NO_GDB, NoGdb, NoReport, worst
from gdbext.launcher.targets import add_target, parse_targets
from gdbext.narrate.words import problem_of
from gdbext.render.escape import as_text, concatenated, joined
from gdbext.render.shown import Shown
from gdbext.render.style import Style

NAME = "report"
HELP = "why a process hangs, or why a core crashed"
DESCRIPTION = """\
Shows the verdict: why a process hangs, or why a core crashed. Then every thread with
its Python and native stack, the locks that it holds, and the lock that it waits for.
A process is not paused: only threads that run are stopped, for a moment, and none with
--no-stop. With --gdb it is paused during the snapshot; the report says for how long."""
EXAMPLES = """\
examples:
  gdbext report 4711
  gdbext report core.gz --search /mnt/build/app
  gdbext report core --sysroot /mnt/image --json | jq .deadlocks
  gdbext report 4711 --html hang.html --dot - > hang.dot
  gdbext report 4711 --brief          the verdict on at most 15 lines
  gdbext report 4711 --children       the process with all its descendants
  gdbext report 4711 --alone          without them and those that it waits for
  gdbext report --name 'celery.*worker'   every process with such a command line

exit status: 0 nothing wrong found, 1 a deadlock, a crash or another state that does
not end by itself, 2 bad usage, 3 no answer: the target could not be read, or the
report could not be written, 4 no GDB or a GDB without Python, 5 a hang that may end
when something outside of the process happens"""

#: A target with its report, or the reason why there is none.
Result = tuple[Target, Union[Report, NoReport]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_target(parser)
    add_output(parser, "gdbext/1")
    parser.add_argument("--dot", metavar="FILE", help="write the wait-for graph for Graphviz; -: instead of the text")
    parser.add_argument("--children", action="store_true",
                        help="also report on all descendants of the process, and on their waits for each other")
    parser.add_argument("--alone", action="store_true",
                        help="do not read other processes, such as children or those that the process waits for")
    parser.add_argument("--brief", action="store_true",
                        help="only the verdict, its threads, which waits for which, since when, and what to do next: "
                        "at most 15 lines, or with --json 4,000 characters, schema gdbext-brief/1")
    add_text(parser, variables=True)
    add_snapshot_options(parser, without_gdb=True)


def run(options: argparse.Namespace) -> int:
    """Take a snapshot and report; return the exit status."""
    if options.json and options.dot == "-":
        raise UsageError("--json and --dot - both write to standard output", "give --dot a file")
    if options.children and options.brief:
        raise UsageError("--brief chooses by itself whether it is about children", "leave out --children")
    if options.children:
        from gdbext.launcher import children

        return children.run(options)
    targets = parse_targets(options)
    only_text = not options.json and not options.brief and options.dot is None and options.html is None
    how = replace(parse_options(options), text_only=only_text)
    progress = Progress(len(targets), name="gdbext report") if len(targets) > 1 else None
    found: list[Result] = []
    try:
        for target in targets:
            found.append((target, _report(target, how)))
            _, made = found[-1]
            if progress is not None:
                progress.advance(isinstance(made, NoReport))
            if isinstance(made, NoGdb):
                break
        pid = targets[0].pid if len(targets) == 1 else None
        is_text = only_text or options.brief and not options.json
        asks_job = is_text and not options.alone and made.status not in (FOUND, NO_GDB)
        roots = roots_of_job(pid) if pid is not None and asks_job else []
        if roots:
            # loading it takes as long as a small snapshot, and few processes have a job
            from gdbext.launcher import job_page

            stuck = job_page.find(roots, how)
            if stuck is not None:
                write_report((job_page.head if options.brief else job_page.text)(stuck), options.pager)
                return job_page.STATUS[stuck.job.kind]
        # the answer may be in a child of the only target, or in a process that it waits for
        follows = pid is not None and options.html is None and options.dot is None and not options.alone
        if pid is not None and follows and isinstance(made, Report) and made.awaited is not None:
            from gdbext.launcher import children

            tree = children.find_answer(pid, made.awaited, made.status, options)
            if tree is not None and options.brief:
                write_brief(made.model, options, children.summary(tree, tree.triage))
            elif tree is not None and options.json:
                write(as_text([made.to_json(children.as_document(tree))]))
            elif tree is not None:
                children.write_tree(tree, tree.triage, options)
            if tree is not None:
                return tree.status
    except KeyboardInterrupt:
        _write(found, options)
        raise
    finally:
        if progress is not None:
            progress.clear()
    _write(found, options)
    return worst(made.status for _, made in found)


def _report(target: Target, how: Options) -> Report | NoReport:
    try:
        return report_on(target, how)
    except NoReport as error:
        return error


def _write(found: Sequence[Result], options: argparse.Namespace) -> None:
    """Write the reports, and lines about how they were made."""
    read = [made for _, made in found if isinstance(made, Report)]
    if options.brief and options.dot != "-":
        for report in read:
            write_brief(report.model, options)
    elif options.json:
        write(as_text(report.to_json() for report in read))
    elif options.dot != "-":
        write_report(joined(report.text for report in read), options.pager)
    if options.dot is not None and read:
        write_file(options.dot, concatenated(report.to_dot() for report in read))
    if options.html is not None and read:
        from gdbext.render.html import html_page

        title = found[0][0].name if len(found) == 1 else f"{len(found):,} processes"
        write_file(options.html, html_page([_shown(*each) for each in found], f"gdbext: {title}"))
    sys.stdout.flush()
    for target, made in found:
        for note in made.notes:
            say(f"gdbext report: {problem_of(target.name, note) if len(found) > 1 else note}")
        if made.paused is not None:
            say(f"gdbext report: {target.name} was "
                + (f"paused for {made.paused:.2f} s" if made.paused else "not paused"))
        if made.problem is not None:
            problem = problem_of(target.name, made.problem) if len(found) > 1 else made.problem
            say(f"gdbext report: {problem}" + (f"; {made.hint}" if made.hint else ""))


def write_brief(made: gdbext.model.Report, options: argparse.Namespace, processes: Sequence[str] = ()) -> None:
    """Write a report in brief, as text or JSON.

    :param processes: lines about it and other processes, if they are the answer.
    """
    from gdbext.render.brief import brief_json, brief_text

    write(brief_json(made, processes) if options.json else
          brief_text(made, Style(parse_colour(options)), processes))


def _shown(target: Target, made: Report | NoReport) -> Shown:
    return made.shown() if isinstance(made, Report) else Shown(target.name, None, made.problem)
