"""The answer to the launcher: a report with its crash, its text, and the source lines that the text shows.

Without GDB, the process that takes the snapshot makes the answer too (`direct.one_snapshot`). GDB in batch mode writes
the document, and the launcher makes the answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from gdbext.commands.report_options import ReportOptions
from gdbext.errors import GdbextError
from gdbext.inferior.proc.files import read_link
from gdbext.inferior.proc.status import living_task, start_of, status_fields
from gdbext.model import PyFrame, Report
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.narrate.sentences import sentence
from gdbext.narrate.words import plain
from gdbext.render.escape import NOTHING, Safe, as_text, concatenated
from gdbext.render.greenlets import greenlet_list
from gdbext.render.source import SourceFiles
from gdbext.render.source_access import EVERYBODY, SourceAccess, User
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from gdbext.verdict.judge import awaited_processes, verdict_of

if TYPE_CHECKING:
    from gdbext.elf.core_file import CoreFile

_Value = TypeVar("_Value")

#: How many characters of a source line the answer has.
_SOURCE_LINE = 1_000


def withhold_values(report: Report) -> Report:
    """Leave the values of variables out of a report, which says so."""
    crash, what = report.crash, "process" if report.target.kind == "live" else "core"
    return replace(
        report, notes=(*report.notes, because("values-withheld", what=what)),
        crash=replace(crash, stack=replace(crash.stack, variables={})) if crash is not None else None,
        threads=tuple([replace(thread, variables=None) if thread.variables else thread for thread in report.threads]))


def redacted(report: Report, source: bool) -> Report:
    """A report without private details.

    :param source: whether its source lines are shown.
    """
    from gdbext.redact import redact  # few reports need it

    return redact(report, private_names(report.target.pid if report.target.kind == "live" else None), source)


def without_private(value: _Value, pid: int | None = None, hosts: Collection[str] = ()) -> _Value:
    """A copy of a value without private details, such as one that was made of redacted reports.

    :param pid: the process that it is about, if it is about one.
    :param hosts: further names of machines.
    """
    import socket

    from gdbext.redact import Redaction

    machines = {socket.gethostname(), *hosts}
    return Redaction(None, private_names(pid) | machines, machines)(value)


def private_names(pid: int | None = None) -> set[str]:
    """The names of this machine, of this process's user, and of the user of another process, if there is one."""
    import pwd
    import socket

    users = {os.geteuid()}
    if pid is not None:
        users |= {int(user) for user in status_fields(pid).get("Uid", "").split()}
    names = {socket.gethostname(), os.path.basename(os.environ.get("HOME", ""))}
    for user in users:
        with contextlib.suppress(KeyError):
            names.add(pwd.getpwuid(user).pw_name)
    return names - {""}


def answer(report: Report, incomplete: GdbextError | None, files: SourceFiles,
           options: ReportOptions) -> dict[str, Any]:
    """Make the answer: values of JSON, and as ``document`` the pieces of a line of JSON, see `write_answer`.

    :param incomplete: why the report is incomplete, where the user can do something about it.
    """
    shows_source = options.source or not options.redact
    whole_paths: dict[str, str] = {}
    if options.redact:
        whole, report = report, redacted(report, options.source)
        whole_paths = _whole_paths(whole, report)
    style = Style(options.colour, options.width)
    lines: dict[tuple[str, int], str] = {}

    def source(path: str, line: int) -> str | None:
        text = files(whole_paths.get(path, path), line) if shows_source else None
        if text:
            lines[path, line] = text[:_SOURCE_LINE]
        return text

    # they name files
    notes = files.notes() if not options.redact else []
    renderer = TextRenderer(report, style, source, native=options.native)
    text = whole_text(renderer, options.each, options.stacks)
    text = style.wrap(concatenated([text, as_text(f"Note: {note}" for note in notes)]))
    verdict = verdict_of(report)
    return {
        **({} if options.text_only else _document_and_graph(report)), "text": text, "outcome": verdict.outcome,
        "verdict": verdict.kind, "awaited": list(awaited_processes(report)),
        # the launcher has no right to read files that the target names, so a page shows the lines of the text
        "source": [[*place, line] for place, line in lines.items()], "source_notes": notes,
        "unknown": explain(report.no_verdict) if report.no_verdict is not None else (
            plain(sentence(renderer.facts)) if verdict.outcome == "doubt" else None),
        "incomplete": None if incomplete is None else str(incomplete),
        "hint": "" if incomplete is None else incomplete.hint,
    }


def _whole_paths(whole: Report, report: Report) -> dict[str, str]:
    """The paths of Python files by those in the redacted report, without those of several files with one such path."""
    found: dict[str, str] = {}
    for before, after in zip(whole.threads, report.threads):
        for frame, shown in zip(before.stack, after.stack):
            if isinstance(frame, PyFrame) and isinstance(shown, PyFrame) and found.setdefault(
                    shown.file, frame.file) != frame.file:
                found[shown.file] = ""
    return found


def whole_text(renderer: TextRenderer, each: bool, stacks: str) -> Safe:
    """The text of a report with its crash, tasks and greenlets.

    :param each: whether threads with the same stack are shown one by one.
    :param stacks: as in `TextRenderer.threads`.
    """
    report, crash, tasks = renderer.facts.report, NOTHING, NOTHING
    # a report that lacks a part need not wait for the module of it
    if report.crash is not None:
        from gdbext.render.crash import crash_text

        crash = crash_text(renderer, report.crash)
    if report.event_loops:
        from gdbext.render.tasks import TaskTree

        tasks = TaskTree(report, renderer, stacks).render()
    return renderer.threads(None, each, stacks, crash, tasks, greenlet_list(report, renderer, stacks))


def _document_and_graph(report: Report) -> dict[str, Any]:
    from gdbext.render.dot import as_dot
    from gdbext.schema.write import ALL_PARTS, document_text

    return {"document": document_text(report, ALL_PARTS), "dot": as_dot(report)}


def write_answer(made: Mapping[str, Any], file: TextIO) -> None:
    """Write an answer: the ``document`` on a line of its own, if there is one, then a line with all other members.

    A document that was cut off is ended by a newline, so the caller can write another answer after it.
    """
    if "document" in made:
        try:
            file.writelines(made["document"])
        finally:
            print(file=file)
    print(json.dumps({name: value for name, value in made.items() if name != "document"}), file=file, flush=True)


def source_of_core(core: CoreFile | None, written: Callable[[], float | None], folders: tuple[str, ...] = (),
                   anywhere: bool = True, root: str | None = None) -> SourceFiles:
    """Prepare reading the source of a core's frames.

    :param written: returns when the core was written, in seconds since 1970.
    :param folders: the folders that are searched first.
    :param anywhere: whether files may be read wherever frames name them.
    :param root: the folder that holds the process's files under their own paths, which is searched before this machine.
    """
    folders = (*folders, root) if root else folders
    return SourceFiles(folders, anywhere, SourceAccess("", _user_of_core(core)), since=written, what="core")


def _user_of_core(core: CoreFile | None) -> User | None:
    """The user with whose rights to read files that a core names; None for this process's own user.

    The user that the core records and the owner of its file must agree.
    """
    if os.geteuid() != 0:
        return None if core is None or core.owner == os.geteuid() else EVERYBODY
    if core is None or core.user is None:
        return EVERYBODY
    users = {core.user, core.owner} - {0}
    if not users:
        return None
    return EVERYBODY if len(users) > 1 else User(users.pop(), core.group if core.user else EVERYBODY.gid)


def source_of_process(pid: int, folders: tuple[str, ...] = (), anywhere: bool = True) -> SourceFiles:
    """Prepare reading the source of the frames of a process on this machine.

    :param folders: see `source_of_core`.
    :param anywhere: see `source_of_core`.
    """
    root = f"/proc/{living_task(pid)}/root"
    if not os.path.isdir(f"{root}/"):  # another user's process, for example
        root = ""
    return SourceFiles(folders, anywhere, SourceAccess(root, _user_of_process(pid)), lambda: _started(pid),
                       directory=lambda: read_link(f"/proc/{living_task(pid)}/cwd"))


def _user_of_process(pid: int) -> User | None:
    """Return the user with whose rights to read files that a process names; None for the debugger's own user.

    For a set-user-ID program this is the user who started it. Source: Linux 6.1 Documentation/filesystems/proc.rst.
    """
    fields = status_fields(pid)
    try:
        users, groups, more = (tuple(map(int, fields[name].split())) for name in ("Uid", "Gid", "Groups"))
        if users[0] == 0 or set(users) == {os.geteuid()}:
            return None
        return User(users[0], groups[0], more)
    except (ValueError, LookupError):
        return EVERYBODY


def _started(pid: int) -> float | None:
    """Return the start time of a process in seconds since 1970, or None.

    Source: Linux 6.1 fs/proc/array.c, do_task_stat: ``starttime`` of /proc/PID/stat, in ticks since boot.
    """
    ticks = start_of(pid)
    if ticks is None:
        return None
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
