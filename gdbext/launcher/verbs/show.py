"""The verb `show`: a saved report, or a part of it, without the target."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from gdbext.commands.answer import whole_text
from gdbext.errors import BadDocument, UsageError
from gdbext.launcher.cli import add_output, add_redact, add_text, parse_colour
from gdbext.launcher.output import write, write_file
from gdbext.launcher.pager import write_report
from gdbext.launcher.status import FOUND, status_of, worst
from gdbext.launcher.verbs.ranks import read_json
from gdbext.launcher.verbs.report import write_brief
from gdbext.model import Lock, Report, Thread
from gdbext.model.verdict import OUTCOMES
from gdbext.narrate.names import number_list
from gdbext.narrate.processes import deadlock_heading
from gdbext.render.escape import Safe, as_text, joined, json_line, printable
from gdbext.render.plain_text import one_line
from gdbext.render.shown import Shown
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from gdbext.schema.read import read_document

NAME = "show"
HELP = "a report that --json has saved"
DESCRIPTION = """\
Shows a report that `gdbext report --json` has saved, or answers a question about it.
The target is not needed; source lines are not shown. A question is `verdict`,
`thread N`, with a number or an LWP of the report, or `lock ID`, with an id or address
of the report."""
EXAMPLES = """\
examples:
  gdbext show found.json
  gdbext show found.json --brief
  gdbext show found.json thread 3
  gdbext show found.json lock 0x7f3012c04a10
  gdbext show found.json verdict --json
  ssh host gdbext report 4711 --json | gdbext show -

exit status: that of `gdbext report` for the report, 2 bad usage, 3 no answer: the
document cannot be read"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("file", metavar="FILE", help="the document, schema gdbext/1; - is standard input")
    parser.add_argument("question", metavar="verdict|thread N|lock ID", nargs="*",
                        help="show only this; with --json, the members of the document")
    parser.add_argument("--brief", action="store_true", help="as in gdbext report")
    add_output(parser, "gdbext/1")
    add_text(parser)
    add_redact(parser)


def run(options: argparse.Namespace) -> int:
    """Show a document; return the exit status of the report."""
    document: Any = read_json(options.file)
    report = read_document(document)
    if options.redact:
        from gdbext.commands.answer import redacted
        from gdbext.redact import Redaction
        from gdbext.schema.write import document as as_document

        report, others = redacted(report, False), Redaction(report)(document.get("processes"))
        document = {**as_document(report, document.keys()), **({} if others is None else {"processes": others})}
    processes = [*_processes(document)]
    status = worst([status_of(report), *([FOUND] if _is_stuck(document) else [])])
    if options.html is not None:
        from gdbext.render.html import html_page

        write_file(options.html, html_page([Shown(report.target.command_line or "report", report, None)], "gdbext"))
    if options.brief and not options.question:
        write_brief(report, options, processes)
    elif options.json:
        write(json_line(_part(document, report, options.question)))
    else:
        renderer = TextRenderer(report, Style(parse_colour(options)), lambda path, line: None, native=options.native)
        write_report(_text(renderer, options.question, options, processes), options.pager)
    return status


def _text(renderer: TextRenderer, question: Sequence[str], options: argparse.Namespace,
          processes: Sequence[str]) -> Safe:
    report = renderer.facts.report
    what, name = _parse(question) if question else ("", "")
    if what in ("", "verdict"):
        return joined([as_text(processes), renderer.deadlocks(options.stacks) if what else
                       whole_text(renderer, options.each, options.stacks)])
    return (renderer.thread(_thread(report, name), options.stacks) if what == "thread" else
            renderer.locks([_lock(report, name)]))


def _part(document: Any, report: Report, question: Sequence[str]) -> Any:
    """The part of a document that a question is about; the whole document without one."""
    if not question:
        return document
    what, name = _parse(question)
    if what == "verdict":
        return document.get("verdict")
    member, key, wanted = (("threads", "number", _thread(report, name).number) if what == "thread" else
                           ("locks", "id", _lock(report, name).id))
    return next(each for each in document[member] if each[key] == wanted)


def _parse(question: Sequence[str]) -> tuple[str, str]:
    what, *names = question
    if (what, len(names)) not in (("verdict", 0), ("thread", 1), ("lock", 1)):
        raise UsageError(f"{printable(' '.join(question), 100)} is not a question about a report",
                         "ask for `verdict`, `thread N` or `lock ID`")
    return what, names[0] if names else ""


def _thread(report: Report, name: str) -> Thread:
    for key in ("number", "lwp"):
        for thread in report.threads:
            if str(getattr(thread, key)) == name:
                return thread
    raise UsageError(f"there is no thread {printable(name, 100)} in the report",
                     f"it has {number_list([thread.number for thread in report.threads])}")


def _lock(report: Report, name: str) -> Lock:
    for lock in report.locks:
        if name in (lock.id, f"{lock.address:#x}"):
            return lock
    several = ", ".join(lock.id for lock in report.locks[:10]) or "no lock"
    raise UsageError(f"there is no lock {printable(name, 100)} in the report", f"it has {printable(several)}")


# -- other processes that explain the hang ----------------------------------------------------------------------------

def _listed(document: Any, name: str) -> list[dict[str, Any]]:
    """A list of ``processes``, which a document has if other processes explain the hang.

    :raises BadDocument: it does not follow the schema.
    """
    found = document.get("processes")
    if found is None:
        return []
    listed = found.get(name) if isinstance(found, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise BadDocument("it is not a list of objects", f".processes.{name}")
    return listed


def _processes(document: Any) -> Iterator[str]:
    """One line for each process and each deadlock between processes."""
    for each in _listed(document, "tree"):
        target, title, said = (printable(str(each.get(key)), 300) for key in ("target", "title", "sentence"))
        yield f"{target}: {title}: {said}" if each.get("title") is not None else f"{target}: not read"
    for each in _listed(document, "deadlocks"):
        pids, why = each.get("processes"), each.get("why")
        yield one_line(deadlock_heading(pids if isinstance(pids, list) else (), printable(str(each.get("evidence"))),
                                        str(why) if why is not None else None, each.get("lost_message") is True))


def _is_stuck(document: Any) -> bool:
    """Whether one of several processes does not go on by itself, or several wait for each other."""
    stuck = [str(kind) for kind, outcome in OUTCOMES.items() if outcome == "stuck"]
    return bool(_listed(document, "deadlocks")) or any(
        each.get("verdict") in stuck for each in _listed(document, "tree"))
