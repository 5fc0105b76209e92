"""Processes of this machine: the members of a set, and those whose command line has a pattern."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType

from gdbext.inferior.address_space import Region
from gdbext.inferior.proc.files import numbers
from gdbext.inferior.proc.process import Proc, read_command_line, read_name
from gdbext.inferior.proc.status import ancestors, has_ended, is_kernel_thread
from gdbext.inferior.proc.threads import Task
from gdbext.launcher.output import say
from gdbext.model import Report, Thread
from gdbext.model.reasons import Reason, because
from gdbext.render.escape import printable

#: How long a command line is searched, in seconds of processor time.
_SEARCHING = 0.1


def describe_unseen(what: str, refused: int, pids: Sequence[int]) -> Reason | None:
    """Why something of other users' processes is not known; None if it is.

    :param refused: the number of processes of which it could not be read.
    :param pids: all processes in /proc.
    """
    if refused:
        return because("other-users-unreadable", what=what, count=refused)
    # mount option hidepid of /proc
    return because("other-users-invisible") if 1 not in pids else None


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


@dataclass
class Member:
    """A process of the set, with its report (None: it could not be read)."""

    pid: int
    report: Report | None
    proc: Proc
    states: Mapping[int, Task | None] = field(default_factory=dict)
    mappings: tuple[Region, ...] = ()

    @property
    def threads(self) -> tuple[Thread, ...]:
        """The threads of the report."""
        return self.report.threads if self.report is not None else ()

    def mapping_at(self, address: int) -> Region | None:
        """The mapping that contains an address."""
        return next((each for each in self.mappings if each.start <= address < each.end), None)
