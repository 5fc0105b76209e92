"""The time limit of a snapshot."""

from __future__ import annotations

import time

from gdbext.launcher.status import Unreadable


class TooSlow(Unreadable):
    """A snapshot took longer than its time limit."""


class Limit:
    """The time limit of one snapshot. It starts now, and all that is done for the snapshot counts.

    :param seconds: may be infinite.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The time that is left, in seconds."""
        return max(self._end - time.monotonic(), 0.0)

    def check(self, what: str) -> None:
        """Raise if no time is left.

        :param what: what was not done.
        :raises TooSlow: no time is left.
        """
        if not self.left:
            raise self.exceeded(what)

    def exceeded(self, what: str) -> TooSlow:
        """The error for an action that was not completed."""
        return TooSlow(f"{what} within {self._seconds:g} s", "give more time: --timeout SECONDS")
