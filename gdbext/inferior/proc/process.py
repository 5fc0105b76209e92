"""One live process on this machine: its descriptors, sockets, locks on files, relatives, mappings and clocks.

Each file is read once, on first use: the process must stay stopped while a `Proc` exists. Names and paths are bounded
in length and not escaped.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from gdbext.inferior.address_space import Region
from gdbext.inferior.environment import MOST_BYTES, parse_environment
from gdbext.inferior.proc.descriptors import (
    MOST_PROCESSES,
    POLLABLE,
    SCAN_SECONDS,
    Descriptor,
    DescriptorTable,
    OpenFiles,
    nearest,
)
from gdbext.inferior.proc.file_locks import FileLocks
from gdbext.inferior.proc.files import MOST_CHARACTERS, MOST_OF_ONE, numbers, read_link, read_small, read_text
from gdbext.inferior.proc.maps import read_maps
from gdbext.inferior.proc.mounts import Mount
from gdbext.inferior.proc.shared_memory import Sharers, Word, others_mapping
from gdbext.inferior.proc.sleeper import Sleeper, read_sleeper, shared_word
from gdbext.inferior.proc.sock_diag import Exchange, UnixSockets, tcp_exchange, unix_sockets
from gdbext.inferior.proc.sockets import SocketTables
from gdbext.inferior.proc.status import (
    EXIT_CODE,
    THREADS,
    ancestors,
    living_task,
    parent_of,
    shares_namespace,
    start_of,
    stat_fields,
    status_field,
)
from gdbext.inferior.proc.threads import Sleep, SystemCall, parse_switches
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.remembered import remembered

#: The largest number of ancestors of a process.
_MOST_ANCESTORS = 64
#: The largest number of bytes of a command line.
_MOST_OF_COMMAND = 4096
#: Clocks of timers and time-outs for which the remaining time is reported.
_CLOCKS = (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)

#: Signals whose handlers wake no thread: the interpreter's own of SIGINT, those of errors, and two (32 and 33) with
#: which glibc asks threads to end or to change their user.
_HARMLESS = frozenset((signal.SIGINT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT,
                       signal.SIGTRAP, signal.SIGSYS, 32, 33))


@record
class EndedChild:
    """A child process that has ended and that its parent has not waited for: a zombie.

    `signal` is the number of the signal that killed it; `status` its exit status. Both are None if not known.
    """

    pid: int
    signal: int | None = None
    status: int | None = None


def read_command_line(task: int, root: str = "/proc") -> str | None:
    """The arguments of a process, separated by spaces; None if they cannot be read."""
    text = read_text(f"{root}/{task}/cmdline", _MOST_OF_COMMAND)
    return text.rstrip("\0").replace("\0", " ") if text else None


def read_environment(task: int, root: str = "/proc") -> Mapping[str, str]:
    """The variables of a process that say which rank of a job it is; empty if they cannot be read."""
    try:
        return parse_environment(read_small(f"{root}/{task}/environ", MOST_BYTES))
    except OSError:
        return {}


def read_name(pid: int, root: str = "/proc") -> str | None:
    """The kernel's name of a process's main thread, or of a thread; None if it does not exist."""
    text = read_text(f"{root}/{pid}/comm", MOST_CHARACTERS)
    return text.rstrip("\n") if text else None


class Proc:
    """A live process on this machine, read from /proc.

    :param pid: the debugger's number of the process.
    :param root: the path of /proc.
    :param seconds: time limit of the search through other processes.
    :param unix: reads the connected local sockets.
    :param exchange: reads when a TCP connection has last sent and received.
    :param asleep: what threads slept in before the process was stopped, by LWP id.
    :param open_files: compares the open files of descriptors.
    """

    def __init__(self, pid: int, root: str = "/proc", seconds: float = SCAN_SECONDS,
                 unix: Callable[[], UnixSockets] = unix_sockets, asleep: Mapping[int, Sleep] | None = None,
                 open_files: OpenFiles | None = None,
                 exchange: Callable[[str, str], Exchange | None] = tcp_exchange) -> None:
        self._began = time.monotonic()
        self.pid = pid
        #: The thread by which /proc shows the process.
        self.task = living_task(pid, root)
        self.descriptors = DescriptorTable(pid, self.task, root, seconds)
        self.sockets = SocketTables(self.task, root, unix, exchange)
        self.file_locks = FileLocks(self.descriptors, root, open_files)
        self._open_files = open_files or OpenFiles()
        self._root = root
        self._seconds = seconds
        self._asleep = asleep or {}

    # -- this process and its relatives ----------------------------------------------------------------------

    def name(self, pid: int) -> str | None:
        """The name of a process, by the debugger's number; None if the process does not exist."""
        return read_name(pid, self._root)

    def is_ready(self, fd: int, to_write: bool) -> bool | None:
        """Whether a pipe, socket, eventfd or epoll descriptor is ready; None for other files, or if not known."""
        if not (self.descriptors.link(fd) or "").startswith(POLLABLE):
            return None
        return self._open_files.is_ready(Descriptor(self.pid, fd), to_write)

    def serves(self, mount: Mount) -> int | None:
        """The descriptor through which the process alone serves a FUSE file system; see `DescriptorTable.serves`."""
        return self.descriptors.serves(mount, self._open_files)

    def command_line(self, pid: int | None = None) -> str | None:
        """The arguments of the process, or of another one, separated by spaces; None if they cannot be read."""
        return read_command_line(self.task if pid is None else pid, self._root)

    @remembered
    def environment(self) -> Mapping[str, str]:
        """The variables with which the program was started that say which rank of a job it is."""
        return read_environment(self.task, self._root)

    @remembered
    def children(self) -> Sequence[int]:
        """The child processes, by the debugger's numbers; some may be missing if there are many processes."""
        found, end = [], time.monotonic() + self._seconds
        for pid in nearest(self.pid, self._root)[:MOST_PROCESSES]:
            if time.monotonic() > end:
                break
            if parent_of(pid, self._root) == self.pid:
                found.append(pid)
        return sorted(found)

    @remembered
    def ended_children(self) -> Sequence[EndedChild]:
        """The child processes that are zombies, by ascending number."""
        found = []
        for pid in self.children():
            stat = stat_fields(pid, self._root)
            # the first thread of a process may end before the others
            if len(stat) > EXIT_CODE and stat[0] == "Z" and stat[THREADS] in ("0", "1"):
                code = int(stat[EXIT_CODE])
                # the kernel gives 0 to those who may not know
                found.append(EndedChild(pid, code & 0x7F or None, code >> 8 or None))
        return found

    def age(self, pid: int) -> float | None:
        """How long ago a process was started, in seconds; None if it does not exist."""
        start = start_of(pid, self._root)
        ticks = os.sysconf("SC_CLK_TCK")
        return None if start is None else max(time.clock_gettime(time.CLOCK_BOOTTIME) - start / ticks, 0.0)

    def sleeper(self, pid: int) -> Sleeper | None:
        """What the first thread of a process has slept in since before this process was read; None if it has run.

        The caller has to check whose process it is.
        """
        found = read_sleeper(pid, self._root)
        return found if found is not None and found.seconds > time.monotonic() - self._began else None

    def shared_word(self, address: int) -> Word | None:
        """The place in shared memory of an address of the process; None if it is not in such memory."""
        return shared_word(self.task, address, self._root)

    def describe(self, pid: int) -> Reason:
        """A process by its id on this machine, with its name; of a relative the `generation`."""
        if pid == self.pid:
            return because("this-process")
        return because("process", pid=pid, name=self.name(pid), generation=self.generation(pid))

    def generation(self, pid: int) -> int | None:
        """1 for a child of the process, 2 for a child's child; -1 for the parent, and so on; None for no relative."""
        above = zip(range(1, _MOST_ANCESTORS), ancestors(pid, self._root))
        below = next((generation for generation, parent in above if parent == self.pid), None)
        if below is not None:
            return below
        own = zip(range(1, _MOST_ANCESTORS), ancestors(self.pid, self._root))
        return next((-generation for generation, parent in own if parent == pid), None)

    def child(self, number: int) -> int | None:
        """The debugger's number of a child, given the child's number in the process's PID namespace."""
        if len(self._numbers(self.pid)) <= 1:  # in the debugger's namespace, or Linux is older than 4.1
            return number
        return next((pid for pid in self.children() if self._numbers(pid)[-1:] == [str(number)]), None)

    def parent_threads(self) -> tuple[int | None, frozenset[int]]:
        """The main thread and all threads of the parent process, by their numbers in the process's PID namespace.

        The parent is not the process that forked this one if that one has ended.
        """
        parent = parent_of(self.pid, self._root)
        depth = max(len(self._numbers(self.pid)), 1)
        if not parent:
            return None, frozenset()
        known = {}
        for task in numbers(f"{self._root}/{parent}/task")[:MOST_PROCESSES]:
            # in the process's own namespace the parent's threads have other numbers, or none
            given = self._numbers(task) if depth > 1 else [str(task)]
            if len(given) >= depth:
                known[task] = int(given[depth - 1])
        return known.get(parent), frozenset(known.values())

    def _numbers(self, pid: int) -> list[str]:
        """The numbers of a process from the debugger's PID namespace down to its own."""
        return (status_field(pid, "NSpid", self._root) or "").split()

    # -- threads, signals, time ------------------------------------------------------------------------------

    def slept_until_stopped(self, lwp: int, call: SystemCall) -> bool:
        """Whether a thread slept in a system call until the process was stopped; false if that is not known.

        Its registers must still be those of this call. If the thread was awake in between, it has gone to sleep again,
        besides the one time when it was stopped.
        """
        before = self._asleep.get(lwp)
        if before is None or before.call != call:
            return False
        try:
            now = parse_switches(read_small(f"{self._root}/{self.pid}/task/{lwp}/status", MOST_OF_ONE))
        except OSError:
            return False
        return now is not None and now - before.switches <= 1

    def has_handlers(self, has_python: bool = True) -> bool | None:
        """Whether the process has handlers of signals that may wake a thread; None if that is not known.

        :param has_python: whether SIGINT has the interpreter's handler, and not one of the program's own.
        """
        harmless = _HARMLESS if has_python else _HARMLESS - {signal.SIGINT}
        try:
            caught = int(status_field(self.pid, "SigCgt", self._root) or "", 16)
        except ValueError:
            return None
        # bit N - 1 stands for signal N
        return any(caught >> number - 1 & 1 for number in range(1, signal.NSIG) if number not in harmless)

    def now(self, clock: int) -> float | None:
        """The time of a clock in the process, in seconds; None if it may differ from the debugger's."""
        if clock not in _CLOCKS or not (clock == time.CLOCK_REALTIME
                                        or shares_namespace(self.task, "time", self._root)):
            return None
        return time.clock_gettime(clock)

    # -- memory and files ------------------------------------------------------------------------------------

    @remembered
    def regions(self) -> tuple[Region, ...]:
        """The address space, by ascending address; empty if it cannot be read."""
        return read_maps(self.task, self._root) or ()

    def is_private(self, address: int) -> bool:
        """Whether an address is in private memory, so that no other process can use a lock there."""
        return any(region.start <= address < region.end and not region.shared for region in self.regions())

    @remembered
    def sharers(self, address: int) -> Sharers:
        """The other processes that have mapped the file of an address in shared memory."""
        region = next((each for each in self.regions() if each.start <= address < each.end), None)
        if region is None:
            return Sharers((), False)
        return others_mapping(self.pid, region, self._root, self._seconds)

    def auxiliary(self) -> Mapping[int, int]:
        """The auxiliary vector: tag -> value; empty if it cannot be read."""
        try:
            data = read_small(f"{self._root}/{self.task}/auxv")
        except OSError:
            return {}
        return dict(struct.iter_unpack("=QQ", data[:len(data) & ~15]))

    def mapped_file(self, path: str) -> str:
        """The path with which a file that a mapping names is opened here.

        Mappings name files from the root of the process's mount namespace. A process of `chroot` has another root,
        to which /proc/PID/root leads (Linux 6.1 fs/proc/task_mmu.c, show_map_vma; fs/d_path.c, prepend_path).
        """
        above = self._root_folder
        inside = path[len(above):] if path.startswith(f"{above}/") else path
        return f"{self._root}/{self.task}/root{inside}"

    @cached_property
    def _root_folder(self) -> str:
        """The root folder of the process in its mount namespace, without a slash at the end."""
        return (read_link(f"{self._root}/{self.task}/root") or "").rstrip("/")
