"""The targets of a page of HTML, and the job that they are ranks of, importable without Jinja2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gdbext.model import Report
from gdbext.record import record


@record
class Shown:
    """A target on a page: its report, or the problem that prevented one and a hint.

    `stopped` is the time for which the target was paused, in seconds; `parent` is its parent in the index. `source` has
    lines of source files by file and line number, and `source_notes` says what is missing or uncertain in them.
    `deadlocked_with` are the other processes of a deadlock, which is the answer in place of the report's own verdict.
    """

    target: str
    report: Report | None
    problem: str | None = None
    hint: str | None = None
    stopped: float | None = None
    parent: str | None = None
    source: Mapping[tuple[str, int], str] = field(default_factory=dict)
    source_notes: tuple[str, ...] = ()
    deadlocked_with: tuple[int, ...] = ()


@record
class RankColumn:
    """A rank of a job, or several that do the same; a text that is not known is empty.

    `who` are the ranks, and `state` is what has happened to the process. `last` is what they have finished, `operation`
    what they wait in or have not called, and `place` the line of the program. `target` has their report on the page.
    A rank `owes` an operation, and `is_cause` if the others wait for it in the end.
    """

    who: str
    process: str = ""
    state: str = ""
    last: str = ""
    operation: str = ""
    verdict: str = ""
    place: str = ""
    owes: bool = False
    is_cause: bool = False
    target: str | None = None


@record
class ShownJob:
    """The verdict on a job: a tone, sentences, how it is known, and its ranks."""

    tone: str
    title: str
    sentence: str
    known: str
    columns: tuple[RankColumn, ...]
