"""The threads of a running process, read from the kernel without a stop: what they sleep in, and whether they have run.

The kernel counts how often a thread has begun to run. If a thread sleeps and that number has not changed between two
reads, it has slept all the time. What was read of its stack in between then belongs to one moment. Source: Linux
Documentation/filesystems/proc.rst (syscall), Documentation/scheduler/sched-stats.rst (schedstat).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from gdbext.inferior.asleep import SystemCall, parse_switches, parse_system_call
from gdbext.inferior.libc import syscall
from gdbext.record import record

#: Most bytes of one of these files, and most threads of a process.
_MOST_BYTES, _MOST_THREADS = 1 << 12, 1 << 17
_RUNNING = b"running"
#: Flags of threads that run only in the kernel, as those of io_uring do. The kernel lists them with the process's own.
#: Source: Linux 6.4 include/linux/sched.h (PF_IO_WORKER, PF_USER_WORKER).
_OF_KERNEL = 0x10 | 0x4000


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
        numbers = [int(name) for name in os.listdir(folder) if name.isdigit()] if only is None else only
        found = {}
        for number in list(numbers)[:_MOST_THREADS]:
            try:
                name = known[number].name if number in known else _name(folder, number)
                if name is not None:
                    found[number] = _read_task(folder, number, name)
            except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
                pass
        return found
    finally:
        os.close(folder)


def listed(pid: int, known: Iterable[int], root: str = "/proc") -> set[int]:
    """The TIDs of the threads of a process, as of `read_tasks`.

    :param known: TIDs of threads that were read before.
    """
    numbers = {int(name) for name in os.listdir(f"{root}/{pid}/task")}
    return numbers.intersection(known) | read_tasks(pid, numbers.difference(known), root).keys()


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
        for number in only:
            try:
                found[number] = read(folder, number)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found
    finally:
        os.close(folder)


def _read_task(folder: int, number: int, name: str) -> Task:
    # the counter comes first: if the thread then goes to sleep, it must run again to be anywhere else
    runs = _runs(folder, number)
    text = _read(folder, f"{number}/syscall")
    call = None if text.startswith(_RUNNING) else parse_system_call(text.decode("ascii", "replace"))
    return Task(number, name, call, runs)


def _name(folder: int, number: int) -> str | None:
    """The name of a thread; None if it has ended, or is one of the kernel's."""
    head, _, tail = _read(folder, f"{number}/stat").rpartition(b") ")
    fields = tail.split()
    if fields[0] in (b"Z", b"X") or int(fields[6]) & _OF_KERNEL:
        return None
    return head.partition(b" (")[2].decode("utf-8", "backslashreplace")


def _runs(folder: int, number: int) -> int | None:
    try:
        # time on the processor, time in the queue, number of times; zeros if the kernel does not count
        counters = [int(word) for word in _read(folder, f"{number}/schedstat").split()]
        if len(counters) == 3 and any(counters):
            return counters[2]
    except (FileNotFoundError, ValueError):  # a kernel without these statistics
        pass
    return _switches(folder, number)


def _switches(folder: int, number: int) -> int | None:
    return parse_switches(_read(folder, f"{number}/status").decode("utf-8", "replace"))


def _read(folder: int, path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(handle, _MOST_BYTES)
    finally:
        os.close(handle)


def robust_list(tid: int, number: int) -> int | None:
    """The address of the ``struct robust_list_head`` of any thread; None if there is none, or we may not read it.

    Source: Linux man-pages 6.05, get_robust_list(2).

    :param number: the system call's number on this machine.
    """
    head, size = ctypes.c_uint64(), ctypes.c_size_t()
    failed = syscall()(ctypes.c_long(number), ctypes.c_long(tid), ctypes.byref(head), ctypes.byref(size))
    return head.value or None if not failed else None
