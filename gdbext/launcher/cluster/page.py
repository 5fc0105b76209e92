"""A Dask cluster on one page: its processes, in classes of what happened in them.

Schema ``gdbext-dask/1`` is owned by this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gdbext.errors import BadDocument
from gdbext.launcher.cluster.answers import checked_snapshot
from gdbext.launcher.snapshots import classes
from gdbext.launcher.status import NO_ANSWER, worst
from gdbext.model import Report
from gdbext.narrate import cluster as words
from gdbext.narrate.classes import DEADLOCK, process_headline
from gdbext.narrate.names import Facts
from gdbext.narrate.verdict import ALL_THREADS
from gdbext.narrate.words import plain
from gdbext.render.escape import Safe, as_text, printable
from gdbext.render.shown import Shown
from gdbext.render.style import PLAIN, Style
from gdbext.schema.read import read_document

SCHEMA = "gdbext-dask/1"

#: How many members of a class are shown.
_MANY_MEMBERS = 16


@dataclass
class Process:
    """A process of the cluster, with its snapshot.

    `roles` are ``scheduler``, ``client`` and ``worker``; none is known of a process that only has a connection to the
    scheduler. `since` is how many seconds the scheduler has not heard from a worker, `tasks` are those assigned to it,
    `futures` is how many a client waits for. The rest is as in `Snapshot`.
    """

    roles: tuple[str, ...]
    address: str | None = None
    name: str | None = None
    host: str | None = None
    pid: int | None = None
    since: float | None = None
    tasks: tuple[str, ...] = ()
    futures: int = 0
    document: dict[str, Any] | None = None
    report: Report | None = None
    text: str = ""
    stopped: float | None = None
    problem: str | None = None
    hint: str | None = None
    status: int = NO_ANSWER

    @property
    def title(self) -> str:
        """The process on one line: roles, address, PID and machine."""
        return words.process_title(self.roles, self.address, self.pid, self.host)

    @property
    def verdict(self) -> str | None:
        """What happened in the process, on one line; None without a report."""
        return None if self.report is None else headline(self.report)

    def take(self, answer: Mapping[str, Any]) -> None:
        """Store the answer of `snapshot_there`, which may come from another version of gdbext."""
        answer = checked_snapshot(answer)
        self.text, self.stopped = answer["text"], answer["stopped"]
        self.problem, self.hint, self.status = answer["problem"], answer["hint"], answer["status"]
        document = answer["document"]
        if document is None:
            return
        try:
            self.report, self.document = read_document(document), document
        except BadDocument as error:
            self.problem, self.hint, self.status = *classes.bad_document(error), NO_ANSWER


@dataclass
class Survey:
    """The processes of a cluster. `problem` says why the scheduler did not answer, None if it did."""

    address: str
    processes: list[Process] = field(default_factory=list)
    problem: str | None = None

    def class_members(self, triage: classes.Triage) -> list[tuple[classes.Class, Process, list[Process]]]:
        """Each class with its representative and all of its processes."""
        by_title = {process.title: process for process in self.processes}
        return [(each, by_title[each.representative], [by_title[name] for name in each.members])
                for each in triage.classes]


def headline(report: Report) -> str:
    """What happened in a process, on one line: between which locks a deadlock is, or that it only waits."""
    return plain(process_headline(Facts(report)))


def merged(found: Survey) -> classes.Triage:
    """The processes with a report in classes of what happened in them, and those without one."""
    read = [(process.title, process.document) for process in found.processes if process.document is not None]
    failures = [classes.Failure(process.title, process.problem or "no snapshot was taken", process.hint)
                for process in found.processes if process.document is None]
    return classes.Triage(classes.merge(read), tuple(failures))


def page(found: Survey, triage: classes.Triage, style: Style = PLAIN) -> Safe:
    """The whole report for people."""
    hosts = {process.host for process in found.processes if process.document is not None}
    lines = [words.summary(printable(found.address), [process.roles for process in found.processes], len(hosts))]
    if found.problem:
        lines.append(words.scheduler_problem(printable(found.problem)))
    for each, representative, members in found.class_members(triage):
        title = words.class_title([member.roles for member in members])
        lines += ["", f"{title}: {classes.marked(style, each.kind, printable(str(representative.verdict)))}"]
        for process in members[:_MANY_MEMBERS]:
            lines += _member(process, each.kind == DEADLOCK)
        left = len(members) - _MANY_MEMBERS
        if left > 0:
            lines.append(f"  and {left:,} more")
        if each.kind == DEADLOCK:
            if len(members) > 1:
                lines.append(f"  in {printable(each.representative)}:")
            lines += ["", *(f"  {line}".rstrip() for line in _answer(representative.text).splitlines())]
    return as_text([*lines, *classes.failure_lines(triage, "  ")])


def _answer(text: str) -> str:
    """The verdict of a report: neither the line about the process above it, nor the stacks of all threads below it."""
    return text.partition("\n\n")[2].partition(f"\n{ALL_THREADS}\n")[0].rstrip()


def _member(process: Process, deadlocked: bool) -> list[str]:
    """A process, what Dask knows of it, and its first deadlock."""
    lines = ["  " + printable(words.process_line(process.title, process.since, process.tasks, process.futures,
                                                 process.stopped))]
    if process.problem:
        lines.append(f"    {printable(process.problem)}")
    if deadlocked and process.report is not None:
        lines.append(f"    {classes.first_cycle(Facts(process.report))}")
    return lines


def as_document(found: Survey, triage: classes.Triage) -> dict[str, Any]:
    """The document of schema ``gdbext-dask/1``: that of `classes` and, for each process, what Dask knows of it."""
    class_of = {member: each.key for each in triage.classes for member in each.members}
    return {**classes.as_document(triage), "schema": SCHEMA, "address": found.address, "problem": found.problem,
            "processes": [{
                "target": process.title, "roles": list(process.roles), "address": process.address,
                "name": process.name, "host": process.host, "pid": process.pid, "silent": process.since,
                "tasks": list(process.tasks), "futures": process.futures, "stopped": process.stopped,
                "class": class_of.get(process.title), "verdict": process.verdict,
                "problem": process.problem, "hint": process.hint,
            } for process in found.processes]}


def shown_targets(found: Survey, triage: classes.Triage) -> list[Shown]:
    """The representative of each class, and the processes without a report, as `render.html` takes them."""
    shown = [representative for _, representative, _ in found.class_members(triage)]
    shown += [process for process in found.processes if process.document is None]
    return [Shown(process.title, process.report, process.problem, process.hint, process.stopped) for process in shown]


def class_rows(found: Survey, triage: classes.Triage) -> list[dict[str, Any]]:
    """The classes as `render.html` takes them."""
    return [{"verdict": representative.verdict, "count": len(each.members), "members": each.members,
             "representative": each.representative} for each, representative, _ in found.class_members(triage)]


def status(found: Survey) -> int:
    """The exit status: that of the process which needs attention most."""
    return worst(process.status for process in found.processes)
