"""Fields of /proc/PID/status and /proc/PID/stat.

Source: Linux 6.1 Documentation/filesystems/proc.rst, include/linux/sched.h.
"""

from __future__ import annotations

#: A process that fork made and that has not called execve since; a thread of the kernel.
PF_FORKNOEXEC, _PF_KTHREAD = 0x40, 0x00200000


def status_field(pid: int | str, name: str) -> str | None:
    """A field of /proc/PID/status; None if there is no such process or field."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(f"{name}:"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return None


def process_name(pid: int | str) -> str:
    """The kernel's name of the process's main thread."""
    return status_field(pid, "Name") or "?"


def stat_fields(pid: int, root: str = "/proc") -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty if there is no such process.

    :param root: the folder of /proc.
    """
    try:
        with open(f"{root}/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].decode("ascii", "replace").split()
    except OSError:
        return []


def state_of(pid: int, root: str = "/proc") -> str | None:
    """The state of a process as one letter; None if it has ended."""
    return next(iter(stat_fields(pid, root)), None)


def parent_of(pid: int, root: str = "/proc") -> int | None:
    """The parent of a process; None if it has ended."""
    return _number(stat_fields(pid, root), 1)


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


def _number(fields: list[str], index: int) -> int | None:
    try:
        return int(fields[index])
    except (ValueError, IndexError):
        return None
