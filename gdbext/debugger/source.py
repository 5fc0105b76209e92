"""Where the source of the target's frames is read, and what tells that it may be another one."""

from __future__ import annotations

import os
import re
import time

from gdbext.debugger.console import output
from gdbext.debugger.settings import Settings
from gdbext.debugger.target import GdbTarget
from gdbext.render.source import SourceFiles

# `info target`: "Local core dump file:\n\t`/tmp/core', file type elf64-x86-64."
_CORE_FILE = re.compile(r"^Local core dump file:\s*[`'](.+)', file type", re.MULTILINE)


def source_files(target: GdbTarget, chosen: Settings) -> SourceFiles:
    """Where the source of the target's frames is read."""
    if target.kind == "core":
        return SourceFiles(chosen.source_path, chosen.source_anywhere, since=_core_written, what="core")
    if not target.is_native:
        return SourceFiles(chosen.source_path, chosen.source_anywhere)
    root = f"/proc/{target.pid}/root"
    if not os.path.isdir(f"{root}/"):  # that of another user's process, say
        root = ""
    return SourceFiles(chosen.source_path, chosen.source_anywhere, root, lambda: _started(target.pid))


def _core_written() -> float | None:
    """When the core was written, in seconds since 1970, as far as its file tells; None if it does not."""
    match = _CORE_FILE.search(output("info target"))
    try:
        return os.stat(match[1]).st_mtime if match else None
    except OSError:
        return None


def _started(pid: int) -> float | None:
    """When a process began, in seconds since 1970: ``starttime`` of /proc/PID/stat; None if it cannot be read.

    Source: Linux 6.1 fs/proc/array.c, do_task_stat; ticks since the machine was booted.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read(4096).rpartition(b")")[2].split()[19])
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return booted + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
