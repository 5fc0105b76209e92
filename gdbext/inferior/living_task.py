"""The thread by which /proc shows a process: the folder of a thread that has ended has neither memory nor files."""

from __future__ import annotations

import os

from gdbext.inferior.proc_files import state_of

#: How many threads are asked.
_MOST = 10_000


def has_ended(task: int, root: str = "/proc") -> bool:
    """Whether a thread or process is a zombie, is being removed, or does not exist.

    :param root: the path of /proc.
    """
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
    try:
        tids = sorted(int(name) for name in os.listdir(f"{root}/{pid}/task"))
    except (OSError, ValueError):
        return pid
    return next((tid for tid in tids[:_MOST] if not has_ended(tid, root)), pid)
