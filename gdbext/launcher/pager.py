"""Reports on standard output: through a pager where that is a terminal on which they do not fit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

from gdbext.launcher.output import write
from gdbext.render.escape import Safe
from gdbext.render.style import rows

#: The pager without $PAGER, and the options of any `less`: it keeps colours, and leaves the report on the screen.
_LESS, _LESS_OPTIONS = "less -FRX", "FRX"
#: How a shell ends if it cannot run a command, or does not find it.
_NOT_RUN = (126, 127)


def write_report(text: Safe, paged: bool = True) -> None:
    """Write a report to standard output.

    All targets must have resumed: a pager may be open for hours.

    :param paged: whether a pager may be used.
    """
    command = _pager_for(text) if paged else None
    if command is None or not _page(command, text):
        write(text)


def _pager_for(text: str) -> str | None:
    """The pager, a command of a shell; None if the text fits on the terminal, or there is none."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        terminal = sys.stdout.fileno()
        size = os.get_terminal_size(terminal)
        # the kernel stops a pager that reads keys in the background
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return None
    except OSError:  # it is not the terminal that controls this process
        return None
    # the last row is for the prompt of the shell
    if size.columns == 0 or rows(text, size.columns) < size.lines:
        return None
    chosen = os.environ.get("PAGER")
    if chosen is None:
        return _LESS if shutil.which("less") else None
    return chosen if chosen.strip() not in ("", "cat") else None


def _page(command: str, text: str) -> bool:
    """Give a text to a pager, which may end before it has read all, and wait for it; False if it cannot be run."""
    sys.stdout.flush()
    # Ctrl-C is for the pager; unlike SIG_IGN, a handler is not inherited
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        with subprocess.Popen(command, shell=True, stdin=subprocess.PIPE,
                              env={"LESS": _LESS_OPTIONS, **os.environ}) as pager:
            try:
                pager.communicate(text.encode(sys.stdout.encoding, "backslashreplace"))
            except BaseException:  # a signal that ends the launcher
                pager.terminate()
                raise
        return pager.returncode not in _NOT_RUN
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
