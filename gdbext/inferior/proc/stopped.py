"""What keeps a process from running: a signal that stopped it, a process that traces it, or a frozen cgroup.

It must be read before a debugger attaches, because the debugger is a tracer too. Source: Linux man-pages 6.05, proc(5);
Documentation/admin-guide/cgroup-v2.rst (cgroup.freeze) and cgroup-v1/freezer-subsystem.rst.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence

from gdbext.inferior.proc.files import numbers, read_text
from gdbext.inferior.proc.mounts import iter_mounts
from gdbext.inferior.proc.process import read_name
from gdbext.inferior.proc.status import EXIT_CODE, stat_fields, state_of, tracer_of
from gdbext.inferior.proc.threads import read_switches
from gdbext.model import Stopped

#: How long a traced thread must not have run, in seconds: one that strace observes stops at each system call.
STILL = 0.05
_MOST_BYTES = 1 << 20
#: Most folders above a cgroup that are searched for the one that was frozen.
_MOST_FOLDERS = 64
#: The files of each version of cgroups: one with a certain line if the cgroup is frozen, and one with 1 if this cgroup
#: itself was frozen, and not one above it.
_VERSIONS = {"cgroup": ("freezer.state", "FROZEN", "freezer.self_freezing"),
             "cgroup2": ("cgroup.events", "frozen 1", "cgroup.freeze")}


def read_stopped(pid: int, root: str = "/proc", still: float = STILL) -> Stopped | None:
    """What keeps all threads of a process from running; None if nothing does, or if that is not known.

    :param root: the path of /proc.
    :param still: how long a traced process must not have run, in seconds.
    """
    threads = list(_threads(f"{root}/{pid}/task"))
    states = {state for _, state in threads}
    if states and states <= {"S", "D"}:
        return _frozen(root, [f"{root}/{pid}/task/{tid}" for tid, _ in threads])
    if not states or not states <= {"T", "t"}:
        return None
    if "t" in states:
        try:
            before = read_switches(pid, [tid for tid, _ in threads], root)
            time.sleep(still)
            if before != read_switches(pid, before, root):
                return None
        except OSError:  # it has ended
            return None
        tracer = tracer_of(pid, root)  # None: it is in another PID namespace
        return Stopped("tracer", read_name(tracer, root) if tracer is not None else None, tracer)
    try:
        # of a stopped process the signal, 0 in some kernels
        return Stopped("signal", signal.Signals(int(stat_fields(pid, root)[EXIT_CODE])).name)
    except (IndexError, ValueError):
        return Stopped("signal")


def _threads(folder: str) -> Iterator[tuple[int, str]]:
    """The TID and the state of each thread that has not ended, up to the first one that runs."""
    for tid in numbers(folder):
        state = state_of(tid, folder)
        if state and state not in "ZX":
            yield tid, state
            if state == "R":
                return


def _frozen(root: str, threads: Sequence[str]) -> Stopped | None:
    """The cgroup that is frozen with all threads of a process, which are given by their folders."""
    files = [_frozen_by(root, text) for text in {_read(f"{folder}/cgroup") for folder in threads}]
    if files and None not in files:
        return Stopped("cgroup", files[0])
    # the file system of cgroups is not mounted here
    is_frozen = all(_read(f"{folder}/wchan").partition(".")[0] == "__refrigerator" for folder in threads)
    return Stopped("cgroup") if is_frozen else None


def _frozen_by(root: str, cgroups: str) -> str | None:
    """The file that froze one of a thread's cgroups; None if none is frozen.

    :param cgroups: /proc/PID/cgroup, lines such as ``6:freezer:/job`` and, of version 2, ``0::/job``.
    """
    for line in cgroups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        kind = "cgroup2" if (number, controllers) == ("0", "") else "cgroup"
        if kind == "cgroup" and controllers != "freezer" or "/.." in path:  # outside of our namespace
            continue
        state, frozen, own = _VERSIONS[kind]
        for mounted in _mounts(root, kind):
            folder = f"{mounted}{path}".rstrip("/")
            if frozen not in _read(f"{folder}/{state}").split("\n"):
                continue
            control = "cgroup.freeze" if kind == "cgroup2" else state
            for _ in range(_MOST_FOLDERS):
                if _read(f"{folder}/{own}").strip() == "1":
                    return f"{folder}/{control}"
                folder = os.path.dirname(folder)
                if len(folder) < len(mounted):
                    break
            return f"{mounted}{path}".rstrip("/") + f"/{control}"
    return None


def _mounts(root: str, kind: str) -> Iterator[str]:
    """Where the file system of cgroups of a version is mounted; of version 1, the one with the freezer."""
    for mount in iter_mounts("self", root):
        if mount.file_system == kind and mount.root == "/" and (kind == "cgroup2" or "freezer" in mount.options):
            yield mount.folder


def _read(path: str) -> str:
    return read_text(path, _MOST_BYTES) or ""
