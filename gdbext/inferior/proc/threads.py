"""The threads of a running process, read without a stop: what they sleep in, whether they have run, and for how long.

The kernel counts how often a thread has begun to run. If a thread sleeps and that number has not changed between two
reads, it has slept all the time. What was read of its stack in between then belongs to one moment. Source: Linux
Documentation/filesystems/proc.rst (syscall, status, wchan), Documentation/scheduler/sched-stats.rst (schedstat).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType

from gdbext.inferior.libc import syscall
from gdbext.inferior.proc.files import MOST_OF_ONE, numbers, read_small, read_text
from gdbext.inferior.proc.status import parse_stat
from gdbext.record import record

#: Most threads of a process.
_MOST_THREADS = 1 << 17
#: The longest time to read what threads sleep in, in seconds. The process runs meanwhile.
_SECONDS = 0.2
_NANOSECONDS = 1_000_000_000
#: Kernel functions in which a thread sleeps that was stopped or frozen, so that it has already left its system call.
_STOPPED = frozenset(("do_freezer_trap", "do_jobctl_trap", "do_signal_stop", "get_signal", "ptrace_stop"))
_RUNNING = b"running"
#: Flags of threads that run only in the kernel, as those of io_uring do. The kernel lists them with the process's own.
#: Source: Linux 6.4 include/linux/sched.h (PF_IO_WORKER, PF_USER_WORKER).
_OF_KERNEL = 0x10 | 0x4000


@record
class SystemCall:
    """A system call with its six arguments, and the registers of the thread that made it.

    The number is negative and there are no arguments if a thread is blocked in the kernel but in no system call.
    """

    number: int
    arguments: tuple[int, ...]
    stack_pointer: int
    program_counter: int


@record
class Sleep:
    """A thread's sleep in a system call. `switches` is how often the thread has gone to sleep since it began."""

    call: SystemCall
    switches: int


@record
class Task:
    """A thread at one moment.

    `call` is the system call that it sleeps in, None if it runs. The number is negative if it is blocked in the kernel
    but in no system call. `runs` is how often it has begun to run; None if the kernel does not count.
    """

    tid: int
    name: str
    call: SystemCall | None
    runs: int | None

    def has_slept_since(self, earlier: Task | None) -> bool:
        """Whether the thread has provably not run since an earlier read."""
        return (earlier is not None and self.call is not None and self.runs is not None
                and (self.call, self.runs) == (earlier.call, earlier.runs))


def parse_system_call(text: str) -> SystemCall | None:
    """Parse /proc/PID/task/TID/syscall; None if the thread runs, or if the text makes no sense."""
    words = text.split()
    try:
        number, *values, stack_pointer, program_counter = int(words[0]), *[int(word, 16) for word in words[1:]]
    except (IndexError, ValueError):
        return None
    return SystemCall(number, tuple(values), stack_pointer, program_counter)


def parse_switches(status: bytes) -> int | None:
    """How often a thread has gone to sleep, from /proc/PID/task/TID/status; None if that is not recorded."""
    # a regular expression would try each line
    number = status.partition(b"\nvoluntary_ctxt_switches:\t")[2].partition(b"\n")[0]
    return int(number) if number.isdigit() else None


# -- what threads sleep in ------------------------------------------------------------------------------------

def read_asleep(pid: int, calls: Container[int], root: str = "/proc", seconds: float = _SECONDS) -> dict[int, Sleep]:
    """Read which threads of a running process sleep in certain system calls, by their LWP ids, before it is stopped.

    A stop interrupts these calls. Most of them then return a code that says so, but some return what they have done so
    far. A thread is left out if the kernel does not let us read it, or if a signal could not interrupt its sleep.

    :param calls: the numbers of the system calls.
    :param root: the path of /proc.
    :param seconds: time limit; the threads that remain then are left out.
    """
    found: dict[int, Sleep] = {}
    end = time.monotonic() + seconds
    for tid in numbers(f"{root}/{pid}/task"):
        if time.monotonic() > end:
            break
        folder = f"{root}/{pid}/task/{tid}"
        try:
            call = _call(read_small(f"{folder}/syscall"))
            if call is None or call.number not in calls:
                continue
            status = read_small(f"{folder}/status", MOST_OF_ONE)
        except OSError:  # the thread has ended, or we may not read it
            continue
        switches = parse_switches(status)
        # the compiler adds parts to names: "ptrace_stop.part.0"
        is_stopped = (read_text(f"{folder}/wchan", 4096) or "").partition(".")[0] in _STOPPED
        if switches is not None and b"\nState:\tS " in status and not is_stopped:
            found[tid] = Sleep(call, switches)
    return found


def read_tasks(pid: int, only: Iterable[int] | None = None, root: str = "/proc",
               known: Mapping[int, Task] = MappingProxyType({})) -> dict[int, Task]:
    """Read the threads of a process, by their TIDs, in the kernel's order.

    Threads that have ended are left out, and the kernel's own threads in the process, which run none of its code.
    The kernel lists threads as they were started. Their TIDs may not ascend, because the kernel begins again at 300.

    :param only: the threads to read; all by default.
    :param root: the path of /proc.
    :param known: earlier reads; the names of these threads are not read again.
    :raises PermissionError: we may not read what the threads are doing.
    :raises OSError: the process does not exist.
    """
    folder = os.open(f"{root}/{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        tids = [int(name) for name in os.listdir(folder) if name.isdigit()] if only is None else only
        found = {}
        for tid in list(tids)[:_MOST_THREADS]:
            try:
                name = known[tid].name if tid in known else _name(folder, tid)
                if name is not None:
                    found[tid] = _read_task(folder, tid, name)
            except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
                pass
        return found
    finally:
        os.close(folder)


def listed(pid: int, known: Iterable[int], root: str = "/proc") -> set[int]:
    """The TIDs of the threads of a process, as of `read_tasks`.

    :param known: TIDs of threads that were read before.
    """
    tids = {int(name) for name in os.listdir(f"{root}/{pid}/task")}
    return tids.intersection(known) | read_tasks(pid, tids.difference(known), root).keys()


def _read_task(folder: int, tid: int, name: str) -> Task:
    # the counter comes first: if the thread then goes to sleep, it must run again to be anywhere else
    runs = _runs(folder, tid)
    return Task(tid, name, _call(read_small(f"{tid}/syscall", folder=folder)), runs)


def _call(data: bytes) -> SystemCall | None:
    return None if data.startswith(_RUNNING) else parse_system_call(data.decode("ascii", "replace"))


def _name(folder: int, tid: int) -> str | None:
    """The name of a thread; None if it has ended, or is one of the kernel's."""
    name, fields = parse_stat(read_small(f"{tid}/stat", folder=folder))
    return None if fields[0] in ("Z", "X") or int(fields[6]) & _OF_KERNEL else name


# -- how often and how long threads have run ------------------------------------------------------------------

def read_runs(pid: int, only: Iterable[int], root: str = "/proc") -> dict[int, int | None]:
    """Read `Task.runs` alone, which is quicker; threads that have ended are left out.

    A thread that slept and has the same number still sleeps, in the same system call.
    """
    return _of_each(pid, only, root, _runs)


def read_switches(pid: int, only: Iterable[int], root: str = "/proc") -> dict[int, int | None]:
    """How often threads have gone to sleep; unlike `Task.runs` it is the same after another thread's turn.

    :return: by their TIDs, None if the kernel does not count; threads that have ended are left out.
    """
    return _of_each(pid, only, root, _switches)


def _of_each(pid: int, only: Iterable[int], root: str, read: Callable[[int, int], int | None]) -> dict[int, int | None]:
    folder = os.open(f"{root}/{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    found = {}
    try:
        for tid in only:
            try:
                found[tid] = read(folder, tid)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found
    finally:
        os.close(folder)


def _runs(folder: int, tid: int) -> int | None:
    try:
        # time on the processor, time in the queue, number of times; zeros if the kernel does not count
        counters = [int(word) for word in read_small(f"{tid}/schedstat", folder=folder).split()]
        if len(counters) == 3 and any(counters):
            return counters[2]
    except (FileNotFoundError, ValueError):  # a kernel without these statistics
        pass
    return _switches(folder, tid)


def _switches(folder: int, tid: int) -> int | None:
    return parse_switches(read_small(f"{tid}/status", MOST_OF_ONE, folder))


def read_times(pid: int, root: str = "/proc") -> dict[int, int]:
    """The time of each thread on a processor in nanoseconds; threads that have ended are left out."""
    times = {tid: _time(f"{root}/{pid}/task/{tid}") for tid in numbers(f"{root}/{pid}/task")}
    return {tid: spent for tid, spent in times.items() if spent is not None}


def _time(folder: str) -> int | None:
    try:
        return int(read_small(f"{folder}/schedstat", 256).split()[0])
    except (IndexError, ValueError):
        return None
    except OSError:
        pass
    try:  # a kernel without these statistics
        fields = parse_stat(read_small(f"{folder}/stat"))[1]
        return (int(fields[11]) + int(fields[12])) * _NANOSECONDS // os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None


def robust_list(tid: int, number: int) -> int | None:
    """The address of the ``struct robust_list_head`` of any thread; None if there is none, or we may not read it.

    Source: Linux man-pages 6.05, get_robust_list(2).

    :param number: the system call's number on this machine.
    """
    import ctypes  # not for those that only parse

    head, size = ctypes.c_uint64(), ctypes.c_size_t()
    failed = syscall()(ctypes.c_long(number), ctypes.c_long(tid), ctypes.byref(head), ctypes.byref(size))
    return head.value or None if not failed else None
