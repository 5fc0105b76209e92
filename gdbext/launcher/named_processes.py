"""Finds processes by a pattern for their command lines."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from types import FrameType

from gdbext.inferior.proc.files import numbers
from gdbext.inferior.proc.process import read_command_line, read_name
from gdbext.inferior.proc.status import ancestors, has_ended, is_kernel_thread
from gdbext.launcher.output import say
from gdbext.render.escape import printable

#: How long a command line is searched, in seconds of processor time.
_SEARCHING = 0.1


def find_processes(wanted: re.Pattern[str], root: str = "/proc") -> list[int]:
    """The processes whose command line or name contains a match, by ascending PID.

    This process and its ancestors do not count: the pattern is in their command lines, as in ``sudo gdbext ...``.
    Threads of the kernel and processes that have ended do not either. Other users choose their command lines, so the
    search of one has a limit; a line on standard error reports that it was reached.
    """
    own = {os.getpid(), *ancestors(os.getpid(), root)}
    found, slow = [], []
    for pid in numbers(root):
        if pid in own or is_kernel_thread(pid, root) or has_ended(pid, root):
            continue
        line, name = (read_command_line(pid, root) or "").strip(), read_name(pid, root) or ""
        try:
            with _limited_search():
                if wanted.search(line) or wanted.search(name):
                    found.append(pid)
        except TimeoutError:
            slow.append(pid)
    if slow:
        more = f" and {len(slow) - 1:,} more" if len(slow) > 1 else ""
        say(f"gdbext: the search for {printable(wanted.pattern)} takes too long in the command line of process "
            f"{slow[0]}{more}, which is left out; simplify the pattern")
    return found


@contextlib.contextmanager
def _limited_search() -> Iterator[None]:
    """Limit the processor time of a search; only in the main thread.

    :raises TimeoutError: the limit is reached.
    """
    def end(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, end)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, _SEARCHING)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
