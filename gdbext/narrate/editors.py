"""The verdict in an editor's debug console."""

from __future__ import annotations

from gdbext.model import Report
from gdbext.narrate.names import Facts
from gdbext.narrate.verdict import headline, not_seen
from gdbext.narrate.words import Words


def verdict_line(report: Report) -> Words:
    """The verdict, and the command that explains it."""
    tone, words = headline(Facts(report))
    command = "py-crash" if report.crash is not None else "py-deadlocks"
    return ("gdbext: ", *words, *((f"; `{command}` explains it",) if tone == "bad" else ()))


def no_verdict_line(problem: str) -> Words:
    """The problem of a target of which no snapshot was taken."""
    return ("gdbext: ", *not_seen(problem)[1])
