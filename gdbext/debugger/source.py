"""Where the source of the target's frames is read, and what shows that it may be another version."""

from __future__ import annotations

import os
import time

from gdbext.debugger.settings import Settings
from gdbext.debugger.target import GdbTarget
from gdbext.render.source import SourceFiles
from gdbext.render.source_access import EVERYBODY, SourceAccess, User


def source_files(target: GdbTarget, chosen: Settings) -> SourceFiles:
    """Where the source of the target's frames is read."""
    if target.kind == "core":
        return SourceFiles(chosen.source_path, chosen.source_anywhere, SourceAccess("", _user_of_core(target)),
                           since=lambda: _core_written(target), what="core")
    if not target.is_native:
        return SourceFiles(chosen.source_path, chosen.source_anywhere,
                           SourceAccess("", EVERYBODY if os.geteuid() == 0 else None))
    root = f"/proc/{target.pid}/root"
    if not os.path.isdir(f"{root}/"):  # that of another user's process, say
        root = ""
    return SourceFiles(chosen.source_path, chosen.source_anywhere, SourceAccess(root, _user_of_process(target.pid)),
                       lambda: _started(target.pid))


def _user_of_process(pid: int) -> User | None:
    """The user whose rights count for what a process names; None if the debugger's user may read no more.

    Of a set-user-ID program it is the user who started it. Source: Linux 6.1 Documentation/filesystems/proc.rst.
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


def _user_of_core(target: GdbTarget) -> User | None:
    """The same of a core: its process's user, which the core itself says, and the owner of the file must not differ."""
    core = target.core_file()
    if os.geteuid() != 0:
        return None if core is None or core.owner == os.geteuid() else EVERYBODY
    if core is None or core.user is None:
        return EVERYBODY
    users = {core.user, core.owner} - {0}
    if not users:
        return None
    return EVERYBODY if len(users) > 1 else User(users.pop(), core.group if core.user else EVERYBODY.gid)


def _core_written(target: GdbTarget) -> float | None:
    """When the core was written, in seconds since 1970, as far as its file tells; None if it does not."""
    path = target.core_path()
    try:
        return os.stat(path).st_mtime if path is not None else None
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
