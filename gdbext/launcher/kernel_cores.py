"""Where the kernel leaves the core of a process that a signal has ended, and why it may have left none."""

from __future__ import annotations

import glob
import os
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from gdbext.launcher.snapshots.rights import container_kind

#: Source: core(5).
_PATTERN, _USES_PID = Path("/proc/sys/kernel/core_pattern"), Path("/proc/sys/kernel/core_uses_pid")
#: Where programs that the kernel pipes cores to keep them, as patterns with the PID.
_KEPT = {"systemd-coredump": "/var/lib/systemd/coredump/core.*.{pid}.*",
         "apport": "/var/lib/apport/coredump/core.*.{pid}.*"}
#: How long such a program may take to store a core, and the pause between two searches, in seconds.
_PATIENCE, _PAUSE = 3.0, 0.1
_SPECIFIER = re.compile(r"%(.?)")
_OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def core_pattern() -> str | None:
    """The kernel's pattern for the names of cores; None if it cannot be read."""
    try:
        return _PATTERN.read_text(errors="replace").strip()
    except OSError:
        return None


def core_is_piped() -> bool:
    """Whether the kernel passes cores to a program."""
    return (core_pattern() or "").startswith("|")


def who_keeps(pattern: str) -> str:
    """Where to look for a core that the kernel pipes to a program."""
    if "systemd-coredump" in pattern:
        return "coredumpctl list; coredumpctl -o core dump PID (or the files of /var/lib/systemd/coredump as they are)"
    if "apport" in pattern:
        return "they are in /var/crash, of packages only; for all: sysctl kernel.core_pattern=core.%p"
    if not os.path.exists(pattern[1:].split(" ")[0]):
        if container_kind() is None:
            return "that program does not exist, so there are none: sysctl kernel.core_pattern=core.%p"
        return "that program runs outside of this container: search there, or sysctl kernel.core_pattern=core.%p there"
    return "ask the administrator where they are"


def find_core(pid: int, folder: str, since: float) -> Path | None:
    """The core that the kernel wrote when a process died; None if it is not found.

    :param folder: the working directory of the process.
    :param since: when the process was started, in seconds since 1970; older cores are of other processes.
    """
    pattern = core_pattern()
    if not pattern:
        return None
    end = time.monotonic() + (_PATIENCE if pattern.startswith("|") else 0)
    while True:
        found = [path for name in _names(pattern, pid, folder) for path in map(Path, glob.glob(name))
                 if path.is_file() and path.stat().st_mtime >= since - 1]
        if found or time.monotonic() >= end:
            return max(found, key=lambda path: path.stat().st_mtime, default=None)
        time.sleep(_PAUSE)


def _names(pattern: str, pid: int, folder: str) -> Iterator[str]:
    """Patterns of the files in which the core of a process may be."""
    if pattern.startswith("|"):
        yield from (kept.format(pid=pid) for program, kept in _KEPT.items() if program in pattern)
        return
    name, at = "", 0
    for found in _SPECIFIER.finditer(pattern):
        name += glob.escape(pattern[at:found.start()])
        name += {"p": str(pid), "P": "*" if _in_namespace() else str(pid), "%": "%", "": ""}.get(found[1], "*")
        at = found.end()
    name = os.path.join(glob.escape(folder), name + glob.escape(pattern[at:]))
    if "%p" not in pattern and _read_flag(_USES_PID):
        yield f"{name}.{pid}"
    yield name


def _in_namespace() -> bool:
    """Whether this process may be in a PID namespace, so that the kernel has other numbers for processes."""
    try:
        return len(Path("/proc/self/status").read_text().partition("NSpid:")[2].partition("\n")[0].split()) > 1
    except OSError:
        return False


def _read_flag(path: Path) -> bool:
    try:
        return path.read_text().strip() != "0"
    except OSError:
        return False


def why_no_core() -> str:
    """Why a process that was started from here left no core that can be found, and how to get one."""
    pattern = core_pattern()
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if pattern is None:
        return "there is no core"
    if pattern.startswith("|"):
        return f"the kernel gave its core to {pattern[1:].split(' ')[0]}: {who_keeps(pattern)}"
    if soft == 0:
        how = ("next time: ulimit -c unlimited, then gdbext run" if hard else
               "the hard limit is 0 too: LimitCORE=infinity for a service, docker run --ulimit core=-1")
        return f"the limit on the size of cores is 0, so there is no core; {how}"
    if not pattern:
        return "kernel.core_pattern is empty, so there is no core; next time: sysctl kernel.core_pattern=core.%p"
    return f"no core was found by kernel.core_pattern ({pattern}): the program may have changed its directory or user"


def out_of_memory_kills() -> int | None:
    """How many processes the kernel has killed because memory ran out, since it was started; None if not known.

    Source: Linux 4.13 mm/vmstat.c (``oom_kill``), which counts those of containers too.
    """
    try:
        found = _OOM_KILLS.search(Path("/proc/vmstat").read_text())
    except OSError:
        return None
    return int(found[1]) if found is not None else None
