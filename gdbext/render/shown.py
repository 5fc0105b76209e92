"""The targets of a page of HTML, importable without Jinja2."""

from __future__ import annotations

from gdbext.model import Report
from gdbext.record import record


@record
class Shown:
    """A target on a page: its report, or the problem that prevented one and a hint.

    `stopped` is the time for which the target was paused, in seconds; `parent` is its parent in the index.
    """

    target: str
    report: Report | None
    problem: str | None = None
    hint: str | None = None
    stopped: float | None = None
    parent: str | None = None
