"""What a page of HTML shows: importable without the library that `render.html` needs."""

from __future__ import annotations

from gdbext.model import Report
from gdbext.record import record


@record
class Shown:
    """A target on a page: its report, or the problem why there is none and a hint what to do about it.

    `stopped` is for how many seconds it was paused, `parent` the target below which it stands in the index.
    """

    target: str
    report: Report | None
    problem: str | None = None
    hint: str | None = None
    stopped: float | None = None
    parent: str | None = None
