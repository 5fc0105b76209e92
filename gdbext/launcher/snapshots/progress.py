"""The progress of many snapshots, on standard error."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, TextIO

from gdbext.render.escape import printable

#: The intervals between updates of a bar while nothing ends, and between lines without a bar, in seconds.
_BAR_INTERVAL, _LINE_INTERVAL = 1.0, 15.0


class Progress:
    """A progress bar of tqdm on a terminal, elsewhere a line from time to time; nothing without tqdm.

    :param total: the number of targets.
    :param name: the beginning of each line.
    """

    def __init__(self, total: int, name: str = "gdbext", stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._name = name
        self._total = total
        self._done = 0
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
            tqdm.monitor_interval = 0  # no monitor thread
            tqdm.set_lock(threading.RLock())  # instead of a lock between processes
            self._bar = tqdm(total=total, desc=name, unit="target", leave=False, dynamic_ncols=True,
                             file=self._stream)

    def advance(self, failed: bool = False) -> None:
        """Count one more target."""
        self._done += 1
        self._failed += failed
        if self._bar is not None:
            if failed:
                self._bar.set_postfix_str(self._failures(), refresh=False)
            self._try(self._bar.update)

    def tick(self) -> None:
        """Show the progress, unless it was shown a moment ago."""
        now = time.monotonic()
        if self._tqdm is None or now - self._last < (_BAR_INTERVAL if self._bar is not None else _LINE_INTERVAL):
            return
        self._last = now
        if self._bar is not None:
            self._try(self._bar.refresh)
        else:
            self.say(f"{self._name}: " + self._tqdm.format_meter(
                self._done, self._total, now - self._begin, postfix=self._failures(),
                bar_format="{n:,} of {total:,}{postfix}, {remaining} left"))

    def say(self, line: str) -> None:
        """Write a line, above the bar."""
        shown = printable(line)
        if self._bar is not None:
            self._try(self._bar.write, shown, file=self._stream)
        else:
            self._try(print, shown, file=self._stream, flush=True)

    def clear(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._try(self._bar.close)

    def _failures(self) -> str:
        return f"{self._failed:,} not read" if self._failed else ""

    def _try(self, write: Any, *arguments: Any, **named: Any) -> None:
        try:
            write(*arguments, **named)
        except OSError:  # progress is not part of the report
            if self._bar is not None:
                self._bar.disable = True
