"""The source files of the target's frames: where they are, who may read them, and whether they may be too new."""

from __future__ import annotations

import os
import time

from gdbext.commands.answer import source_of_core
from gdbext.debugger.settings import Settings
from gdbext.debugger.target import GdbTarget
from gdbext.render.source import SourceFiles
from gdbext.render.source_access import EVERYBODY, SourceAccess, User


def source_files(target: GdbTarget, chosen: Settings) -> SourceFiles:
    """Prepare reading the source of the target's frames."""
    if target.kind == "core":
        return source_of_core(target.core_file(), lambda: _core_written(target), chosen.source_path,
                              chosen.source_anywhere)
    if target.proc is None:
        return SourceFiles(chosen.source_path, chosen.source_anywhere,
                           SourceAccess("", EVERYBODY if os.geteuid() == 0 else None))
    root = f"/proc/{target.pid}/root"
    if not os.path.isdir(f"{root}/"):  # another user's process, for example
        root = ""
    return SourceFiles(chosen.source_path, chosen.source_anywhere, SourceAccess(root, _user_of_process(target.pid)),
                       lambda: _started(target.pid))


def _user_of_process(pid: int) -> User | None:
    """Return the user with whose rights to read files that a process names; None for the debugger's own user.

    For a set-user-ID program this is the user who started it. Source: Linux 6.1 Documentation/filesystems/proc.rst.
    """
    fields: dict[str, tuple[int, ...]] = {}
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name in ("Uid", "Gid", "Groups"):
                    fields[name] = tuple(map(int, value.split()))
        users = fields["Uid"]
        if users[0] == 0 or set(users) == {os.geteuid()}:
            return None
        return User(users[0], fields["Gid"][0], fields["Groups"])
    except (OSError, ValueError, LookupError):
        return EVERYBODY


def _core_written(target: GdbTarget) -> float | None:
    """Return the modification time of the core file in seconds since 1970, or None."""
    path = target.core_path()
    try:
        return os.stat(path).st_mtime if path is not None else None
    except OSError:
        return None


def _started(pid: int) -> float | None:
    """Return the start time of a process in seconds since 1970, or None.

    Source: Linux 6.1 fs/proc/array.c, do_task_stat: ``starttime`` of /proc/PID/stat, in ticks since boot.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read(4096).rpartition(b")")[2].split()[19])
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return booted + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
