"""A known bug of a package or of CPython that a report looks like."""

from __future__ import annotations

from gdbext.record import record


@record
class KnownBug:
    """A known bug of `package`, with how many of its facts agree with the report.

    `version` is that of the process, None if it is not known. In `fixed` the program of the bug was seen to end. A fact
    that does not count in `agree` is not known; if one contradicts, the report does not look like the bug.
    """

    id: str
    title: str
    url: str
    package: str
    version: str | None
    fixed: str
    agree: int
    facts: int
    workaround: str | None = None
