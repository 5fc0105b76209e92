"""Fields of /proc/PID/status and /proc/PID/stat: names, states, parents.

Source: Linux 6.1 Documentation/filesystems/proc.rst, include/linux/sched.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdbext.inferior.proc.files import MOST_OF_ONE, numbers, read_link, read_small, read_text
from gdbext.model.reasons import Reason, because

#: A process that fork made and that has not called execve since; a thread of the kernel.
PF_FORKNOEXEC, _PF_KTHREAD = 0x40, 0x00200000
#: Fields of /proc/PID/stat, counted from the state: the number of threads, and the exit code as of waitpid(2).
THREADS, EXIT_CODE = 17, 49
#: How many threads are searched for one that has not ended.
_MOST_THREADS = 10_000


def status_fields(pid: int | str, root: str = "/proc") -> Mapping[str, str]:
    """The fields of /proc/PID/status; empty if there is no such process."""
    lines = (line.partition(":") for line in (read_text(f"{root}/{pid}/status", MOST_OF_ONE) or "").split("\n"))
    return {name: value.strip() for name, _, value in lines}


def status_field(pid: int | str, name: str, root: str = "/proc") -> str | None:
    """A field of /proc/PID/status; None if there is no such process or field."""
    return status_fields(pid, root).get(name)


def process_name(pid: int | str) -> str:
    """The kernel's name of the process's main thread."""
    return status_field(pid, "Name") or "?"


def tracer_of(pid: int, root: str = "/proc") -> int | None:
    """The process that traces another one, as a debugger or strace does; None if none is visible."""
    found = status_field(pid, "TracerPid", root) or ""
    return int(found) or None if found.isdecimal() else None


def stat_fields(pid: int | str, root: str = "/proc") -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty if there is no such process.

    :param root: the folder of /proc.
    """
    try:
        return parse_stat(read_small(f"{root}/{pid}/stat"))[1]
    except OSError:
        return []


def parse_stat(data: bytes) -> tuple[str, list[str]]:
    """The name in /proc/PID/stat, and the fields from the state on."""
    # the name is in parentheses and may contain any character
    head, _, tail = data.rpartition(b")")
    return head.partition(b"(")[2].decode("utf-8", "backslashreplace"), tail.decode("ascii", "replace").split()


def state_of(pid: int, root: str = "/proc") -> str | None:
    """The state of a process as one letter; None if it has ended."""
    return next(iter(stat_fields(pid, root)), None)


def has_ended(task: int, root: str = "/proc") -> bool:
    """Whether a thread or process is a zombie, is being removed, or does not exist."""
    return state_of(task, root) in ("Z", "X", None)


def living_task(pid: int, root: str = "/proc") -> int:
    """The TID by which /proc shows the memory and files of a process.

    This is its first thread, or another one if the first has called ``pthread_exit``: then ``/proc/PID/maps`` is empty
    and ``/proc/PID/fd`` cannot be read. ``/proc/TID`` is not listed, but exists (Linux 6.1 fs/proc/base.c,
    proc_pid_lookup).

    :return: `pid` if all threads have ended.
    """
    if not has_ended(pid, root):
        return pid
    tids = numbers(f"{root}/{pid}/task")
    return next((tid for tid in tids[:_MOST_THREADS] if not has_ended(tid, root)), pid)


def parent_of(pid: int, root: str = "/proc") -> int | None:
    """The parent of a process; None if it has ended."""
    return _number(stat_fields(pid, root), 1)


def ancestors(pid: int, root: str = "/proc") -> Iterator[int]:
    """Iterate over the parent of a process, its parent, and so on."""
    seen = {pid}
    parent = parent_of(pid, root)
    while parent and parent not in seen:
        yield parent
        seen.add(parent)
        parent = parent_of(parent, root)


def process_tree(pid: int, root: str = "/proc") -> list[tuple[int, int | None]]:
    """A process and its descendants, each with its parent, parents first."""
    children: dict[int, list[int]] = {}
    for other in numbers(root):
        parent = parent_of(other, root)
        if parent is not None:
            children.setdefault(parent, []).append(other)
    found = [(pid, parent_of(pid, root))]
    for parent, _ in found:  # the list grows during the loop
        found += [(child, parent) for child in children.get(parent, ()) if not has_ended(child, root)]
    return found


def start_of(pid: int, root: str = "/proc") -> int | None:
    """The start time of a process in clock ticks since the machine started; None if it has ended."""
    return _number(stat_fields(pid, root), 19)


def is_kernel_thread(pid: int, root: str = "/proc") -> bool:
    """Whether a PID belongs to a kernel thread, which has no descriptors and no memory."""
    return bool((_number(stat_fields(pid, root), 6) or 0) & _PF_KTHREAD)


def is_forked(pid: int, root: str = "/proc") -> bool:
    """Whether a process has not started a program since it was forked; true if not known."""
    flags = _number(stat_fields(pid, root), 6)
    return flags is None or bool(flags & PF_FORKNOEXEC)


def shares_namespace(task: int, kind: str, root: str = "/proc") -> bool:
    """Whether a process shares our namespace; true without such namespaces (``time``: Linux before 5.6)."""
    return namespace_of("self", kind, root) == namespace_of(task, kind, root)


def namespace_of(task: int | str, kind: str, root: str = "/proc") -> str | None:
    """The namespace of a process, such as ``net:[4026531840]``; None if it cannot be read, or if there is none."""
    return read_link(f"{root}/{task}/ns/{kind}")


def describe_unseen(what: str, refused: int, pids: Sequence[int]) -> Reason | None:
    """Why something of other users' processes is not known; None if it is.

    :param refused: the number of processes of which it could not be read.
    :param pids: all processes in /proc.
    """
    if refused:
        return because("other-users-unreadable", what=what, count=refused)
    # mount option hidepid of /proc
    return because("other-users-invisible") if 1 not in pids else None


def _number(fields: list[str], index: int) -> int | None:
    try:
        return int(fields[index])
    except (ValueError, IndexError):
        return None
