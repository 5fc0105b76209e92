"""A Dask cluster on one page: its processes, in classes of what happened in them.

Schema ``gdbext-dask/1`` is owned by this module.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gdbext.launcher.snapshots import classes
from gdbext.launcher.status import FOUND, NO_ANSWER, NO_GDB, NOTHING_FOUND
from gdbext.model import Report
from gdbext.narrate.classes import DEADLOCK, process_headline
from gdbext.narrate.names import Facts
from gdbext.narrate.words import plain
from gdbext.render.escape import printable
from gdbext.render.shown import Shown
from gdbext.schema.read import read_document

SCHEMA = "gdbext-dask/1"

#: How many tasks, and how many members of a class, are named.
_MANY, _MANY_MEMBERS = 4, 16
#: After how many seconds without a word of a worker that is told; it says something twice a second.
_SILENT = 10.0
#: What a process is of which no more is known.
_CONNECTED = "connected process"


@dataclass
class Process:
    """A process of the cluster and what the look at it found.

    `roles` are of ``scheduler``, ``client`` and ``worker``; a process may have several, and none is known of one that
    only has a connection to the scheduler. `since` is for how many seconds the scheduler has not heard of a worker,
    `tasks` are those that it is to run; `futures` is how many a client waits for. The rest is as in `Look`.
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
    text: str = ""
    stopped: float | None = None
    problem: str | None = None
    hint: str | None = None
    status: int = NO_ANSWER

    @property
    def title(self) -> str:
        """What it is and where, on one line."""
        what = _together(self.roles)
        if self.address:
            what += f" {self.address}"
        where = [f"PID {self.pid}"] if self.pid else []
        where += [f"on {self.host}"] if self.host else []
        return f"{what} ({' '.join(where)})" if where else what

    @property
    def report(self) -> Report | None:
        """What was seen of it."""
        return None if self.document is None else read_document(self.document)

    @property
    def verdict(self) -> str | None:
        """What happened in it, on one line; None if it was not seen."""
        return None if self.report is None else headline(self.report)

    def take(self, answer: Mapping[str, Any]) -> None:
        """Keep what `snapshot_there` answered."""
        self.document, self.text = answer.get("document"), answer.get("text") or ""
        self.stopped, self.problem, self.hint = answer.get("stopped"), answer.get("problem"), answer.get("hint")
        self.status = int(answer.get("status", NO_ANSWER))


@dataclass
class Survey:
    """What was found of a cluster. `problem`: why the scheduler could not be asked, if it could not."""

    address: str
    processes: list[Process] = field(default_factory=list)
    problem: str | None = None


def _together(roles: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(roles[:-1]), *roles[-1:]))) or _CONNECTED


# -- the page --------------------------------------------------------------------------------------------------------

def headline(report: Report) -> str:
    """What happened in a process, on one line: between which locks a deadlock is, or that it only waits."""
    return plain(process_headline(Facts(report)))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


def merged(found: Survey) -> classes.Triage:
    """The processes that could be read, in classes of what happened in them, and those that could not."""
    read = [(process.title, process.document) for process in found.processes if process.document is not None]
    failures = [classes.Failure(process.title, process.problem or "it was not looked at", process.hint)
                for process in found.processes if process.document is None]
    return classes.Triage(classes.merge(read), tuple(failures))


def page(found: Survey, triage: classes.Triage) -> str:
    """The whole report for people."""
    lines = [f"Dask cluster {printable(found.address)}: {_summary(found)}"]
    if found.problem:
        lines.append(f"The scheduler could not tell who belongs to it: {printable(found.problem)}")
    by_title = {process.title: process for process in found.processes}
    for each in triage.classes:
        members = [by_title[name] for name in each.members]
        lines += ["", f"{_roles(members)}: {printable(str(by_title[each.representative].verdict))}"]
        for process in members[:_MANY_MEMBERS]:
            lines += _member(process, each.kind == DEADLOCK)
        left = len(members) - _MANY_MEMBERS
        if left > 0:
            lines.append(f"  and {left:,} more")
        if each.kind == DEADLOCK:
            text = by_title[each.representative].text
            if len(members) > 1:
                lines.append(f"  in {printable(each.representative)}:")
            lines += ["", *(f"  {line}".rstrip() for line in text[text.find("Deadlock 1"):].rstrip().splitlines())]
    if triage.failures:
        lines += ["", "Not looked at:", *(f"  {classes.failure_line(failure)}" for failure in triage.failures)]
    return "\n".join(lines)


def _summary(found: Survey) -> str:
    counts = collections.Counter(role or "process" for process in found.processes for role in process.roles or ("",))
    parts = [_count(counts[role], noun) for role, noun in (
        ("scheduler", "scheduler"), ("client", "client"), ("worker", "worker"),
        ("process", _CONNECTED)) if counts[role]]
    hosts = {process.host for process in found.processes if process.document is not None}
    return ", ".join(parts) + (f"; looked at on {_count(len(hosts), 'machine')}" if hosts else "")


def _roles(members: Sequence[Process]) -> str:
    counts = collections.Counter(_together(member.roles) for member in members)
    return ", ".join(_count(number, role) for role, number in counts.items())


def _member(process: Process, deadlocked: bool) -> list[str]:
    """A process, what Dask knows of it, and who waits for whom there."""
    told = [process.title]
    if process.since is not None and process.since > _SILENT:
        told.append(f"not heard of for {process.since:.0f} s")
    if process.tasks:
        named = ", ".join(process.tasks[:_MANY]) + (", ..." if len(process.tasks) > _MANY else "")
        told.append(f"has {_count(len(process.tasks), 'task')} to run: {named}")
    if process.futures:
        told.append(f"waits for {_count(process.futures, 'future')}")
    if process.stopped is not None:
        told.append(f"stood still for {process.stopped:.2f} s")
    lines = ["  " + printable(", ".join(told))]
    if process.problem:
        lines.append(f"    {printable(process.problem)}")
    if deadlocked and process.report is not None:
        lines.append(f"    {classes.first_cycle(Facts(process.report))}")
    return lines


def as_document(found: Survey, triage: classes.Triage) -> dict[str, Any]:
    """The document of schema ``gdbext-dask/1``: that of `classes` and, of each process, what Dask knows of it."""
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
    """What `render.html` shows: the representative of each class, and what could not be looked at."""
    by_title = {process.title: process for process in found.processes}
    shown = [by_title[each.representative] for each in triage.classes]
    shown += [by_title[failure.target] for failure in triage.failures]
    return [Shown(process.title, process.report, process.problem, process.hint, process.stopped) for process in shown]


def class_rows(found: Survey, triage: classes.Triage) -> list[dict[str, Any]]:
    """The classes as `render.html` takes them."""
    by_title = {process.title: process for process in found.processes}
    return [{"verdict": by_title[each.representative].verdict, "count": len(each.members), "members": each.members,
             "representative": each.representative} for each in triage.classes]


def status(found: Survey) -> int:
    """The exit status: 1 where a deadlock was found, otherwise that of a process that could not be read, or 0."""
    statuses = {process.status for process in found.processes}
    for one in (FOUND, NO_GDB, NO_ANSWER):
        if one in statuses:
            return one
    return NOTHING_FOUND
