"""Processes of this machine, as /proc shows them: their descendants, the system calls of threads, mapped files.

Sources: Linux Documentation/filesystems/proc.rst, include/linux/sched.h.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import NamedTuple

from gdbext.inferior.proc import Proc
from gdbext.inferior.proc_files import is_kernel_thread, parent_of, state_of
from gdbext.launcher.output import say
from gdbext.model import Report, Thread
from gdbext.model.reasons import Reason, because
from gdbext.render.escape import printable

#: How much of a command line is searched, in bytes, and for how long, in seconds of processor time.
_COMMAND_LINE, _SEARCHING = 4096, 0.1
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (....) ([0-9a-f]+) (\S+) (\d+) *(.*)$")


class ThreadState(NamedTuple):
    """A thread's system call (None: it runs) with the arguments, its stack pointer, and how often it has run."""

    call: int | None
    arguments: tuple[int, ...]
    stack: int
    switches: int


class Region(NamedTuple):
    """A line of /proc/PID/maps. `file` is (device, inode)."""

    start: int
    end: int
    permissions: str
    offset: int
    file: tuple[str, int]
    path: str

    @property
    def shared(self) -> bool:
        """Whether other processes may see what is written to it."""
        return self.permissions[3] == "s"


def read_text(path: str, limit: int = 8 << 20) -> str | None:
    """A file of /proc, up to so many bytes; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit).decode("utf-8", "backslashreplace")
    except OSError:
        return None


def numbers(folder: str) -> list[int]:
    """The numeric names in a folder, ascending: processes of /proc, threads of /proc/PID/task."""
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except OSError:
        return []


def describe_unseen(what: str, refused: int, pids: Sequence[int]) -> Reason | None:
    """Why something of other users' processes is not known; None if it is.

    :param refused: the number of processes of which it could not be read.
    :param pids: all processes in /proc.
    """
    if refused:
        return because("other-users-unreadable", what=what, count=refused)
    # mount option hidepid of /proc
    return because("other-users-invisible") if 1 not in pids else None


def process_tree(pid: int, root: str = "/proc") -> list[tuple[int, int | None]]:
    """A process and its descendants, each with its parent, parents first."""
    children: dict[int, list[int]] = {}
    for other in numbers(root):
        parent = parent_of(other, root)
        if parent is not None:
            children.setdefault(parent, []).append(other)
    found = [(pid, parent_of(pid, root))]
    for parent, _ in found:  # the list grows during the loop
        found += [(child, parent) for child in children.get(parent, ())
                  if state_of(child, root) not in (None, "Z", "X")]
    return found


def find_processes(wanted: re.Pattern[str], root: str = "/proc") -> list[int]:
    """The processes whose command line or name contains a match, by ascending PID.

    This process and its ancestors do not count: the pattern is in their command lines, as in ``sudo gdbext ...``.
    Threads of the kernel and processes that have ended do not either. Other users choose their command lines, so the
    search of one has a limit; a line on standard error reports that it was reached.
    """
    own = {os.getpid(), *ancestors(os.getpid(), root)}
    found, slow = [], []
    for pid in numbers(root):
        if pid in own or is_kernel_thread(pid, root) or state_of(pid, root) in (None, "Z", "X"):
            continue
        line = (read_text(f"{root}/{pid}/cmdline", _COMMAND_LINE) or "").replace("\0", " ").strip()
        name = (read_text(f"{root}/{pid}/comm") or "").rstrip("\n")
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


def ancestors(pid: int, root: str = "/proc") -> list[int]:
    """The parent of a process, its parent, and so on."""
    found: list[int] = []
    parent = parent_of(pid, root)
    while parent and parent not in found:
        found.append(parent)
        parent = parent_of(parent, root)
    return found


def thread_states(pid: int, root: str = "/proc") -> dict[int, ThreadState] | None:
    """The state of each thread of a process by TID; None where it may not be read."""
    found = {}
    for tid in numbers(f"{root}/{pid}/task"):
        call, status = (read_text(f"{root}/{pid}/task/{tid}/{name}", 1 << 16) for name in ("syscall", "status"))
        if call is None or status is None:
            if os.path.exists(f"{root}/{pid}/task/{tid}"):
                return None
            continue
        switches = sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches:" in line)
        words = call.split()
        if len(words) == 9 and int(words[0]) >= 0:
            values = [int(word, 16) for word in words[1:]]
            found[tid] = ThreadState(int(words[0]), tuple(values[:6]), values[6], switches)
        else:
            found[tid] = ThreadState(None, (), 0, switches)
    return found


@dataclass
class Member:
    """A process of the set, with its report (None: it could not be read)."""

    pid: int
    report: Report | None
    proc: Proc
    states: Mapping[int, ThreadState] = field(default_factory=dict)
    mappings: tuple[Region, ...] = ()

    @property
    def threads(self) -> tuple[Thread, ...]:
        """The threads of the report."""
        return self.report.threads if self.report is not None else ()

    def mapping_at(self, address: int) -> Region | None:
        """The mapping that contains an address."""
        return next((each for each in self.mappings if each.start <= address < each.end), None)


def mappings(pid: int, root: str = "/proc") -> tuple[Region, ...] | None:
    """The mappings of a process by ascending address; None if they may not be read, or it has ended."""
    text = read_text(f"{root}/{pid}/maps")
    if text is None:
        return None
    found = []
    for line in text.splitlines():
        match = _MAPPING.match(line)
        if match is not None:
            start, end, permissions, offset, device, inode, path = match.groups()
            found.append(Region(int(start, 16), int(end, 16), permissions, int(offset, 16), (device, int(inode)), path))
    return tuple(found)


def read_memory(pid: int, address: int, size: int, root: str = "/proc", some: bool = False) -> bytes | None:
    """Memory of a process; None if it cannot be read.

    :param size: in bytes; with `some`, fewer bytes are returned where not all can be read.
    """
    try:
        handle = os.open(f"{root}/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.pread(handle, size, address) if address < 1 << 63 else b""
    except (OSError, OverflowError):
        return None
    finally:
        os.close(handle)
    return data if some or len(data) == size else None
