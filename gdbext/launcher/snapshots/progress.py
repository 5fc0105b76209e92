"""How far a run of many looks has come, on standard error."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, TextIO

#: How often a bar is drawn again while nothing ends, and how often a run without a bar writes a line, in seconds.
_BAR_INTERVAL, _LINE_INTERVAL = 1.0, 15.0


class Progress:
    """A bar of tqdm at the bottom of a terminal, elsewhere a line every now and then; nothing without tqdm.

    :param total: how many looks there are in all, `done` of them before this run.
    :param name: what a line begins with.
    """

    def __init__(self, total: int, done: int = 0, name: str = "gdbext", stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._name = name
        self._total = total
        self._before = self._done = done
        self._failed = 0
        self._begin = self._last = time.monotonic()
        self._tqdm: Any = None
        self._bar: Any = None
        try:
            from tqdm import tqdm
        except ImportError:
            return
        self._tqdm = tqdm
        if self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            tqdm.monitor_interval = 0  # no thread of its own
            tqdm.set_lock(threading.RLock())  # otherwise a semaphore for other processes, too
            self._bar = tqdm(total=total, initial=done, desc=name, unit="target", leave=False, dynamic_ncols=True,
                             file=self._stream)

    def advance(self, failed: bool = False) -> None:
        """One more is done."""
        self._done += 1
        self._failed += failed
        if self._bar is not None:
            if failed:
                self._bar.set_postfix_str(self._failures(), refresh=False)
            self._try(self._bar.update)

    def tick(self) -> None:
        """Show how far the run is, unless that was done a moment ago."""
        now = time.monotonic()
        if self._tqdm is None or now - self._last < (_BAR_INTERVAL if self._bar is not None else _LINE_INTERVAL):
            return
        self._last = now
        if self._bar is not None:
            self._try(self._bar.refresh)
        else:
            self.say(f"{self._name}: " + self._tqdm.format_meter(
                self._done, self._total, now - self._begin, initial=self._before, postfix=self._failures(),
                bar_format="{n:,} of {total:,}{postfix}, {remaining} left"))

    def say(self, line: str) -> None:
        """Write a line, above the bar if there is one."""
        if self._bar is not None:
            self._try(self._bar.write, line, file=self._stream)
        else:
            self._try(print, line, file=self._stream, flush=True)

    def clear(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._try(self._bar.close)

    def _failures(self) -> str:
        return f"{self._failed:,} not read" if self._failed else ""

    def _try(self, write: Any, *arguments: Any, **named: Any) -> None:
        try:
            write(*arguments, **named)
        except OSError:  # the report does not depend on it
            if self._bar is not None:
                self._bar.disable = True
