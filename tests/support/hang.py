"""A deadlocked program and its report, shared by the tests of whole sessions."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support import gdb_session
from tests.support.report import Report
from tests.support.samples import Truth


@dataclass(frozen=True)
class Hang:
    """One session with several commands; the first is `py-threads-locks --json`."""

    variant: str
    truth: Truth
    session: gdb_session.Result

    @property
    def everything(self) -> Report:
        """`py-threads-locks --json`."""
        return Report(self.session.document(0), self.truth)

    def part(self, index: int) -> Report:
        """The output of a command that prints a part of the document."""
        return Report(self.session.document(index), self.truth, self.everything.roles)
