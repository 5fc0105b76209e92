"""Processes: whether there is one of that number, and how GDB gets at its files in another container."""

from __future__ import annotations

import os
from pathlib import Path

from gdbext.launcher.proc_files import process_name, status_field
from gdbext.launcher.snapshots.preparation import Preparation
from gdbext.launcher.snapshots.rights import (
    CAP_SYS_ADMIN,
    CAP_SYS_CHROOT,
    has_capability,
    why_not_traced,
)
from gdbext.launcher.status import Unreadable
from gdbext.render.escape import can_be_told, printable

#: How many processes are named that have a number in another namespace.
_MAX_NAMED = 3


def prepare_process(pid: int, sysroot: Path | None = None) -> Preparation:
    """How GDB gets at a process and its files.

    :raises Unreadable: there is no such process, or it cannot be traced.
    """
    check_process(pid)
    executable = _executable_of(pid)
    if sysroot is not None:
        root = str(sysroot.absolute())
        if not can_be_told(root):
            raise Unreadable("GDB commands cannot contain this folder's name, which has a line feed or is not UTF-8: "
                             f"{printable(root)}", "make a link to it that has another name, and name that")
        return Preparation((f"set sysroot {root}",), executable=executable)
    if not in_other_mount_namespace(pid):
        return Preparation(executable=executable)
    # GDB enters the mount namespace if it may, but always at that namespace's root directory
    if _root_of(pid) == "/" and has_capability(CAP_SYS_ADMIN) and has_capability(CAP_SYS_CHROOT):
        return Preparation(executable=executable)
    return Preparation((f"set sysroot /proc/{pid}/root",), executable=executable,
                       notes=(f"files of another container, read through /proc/{pid}/root",))


def _executable_of(pid: int) -> str | None:
    """The executable by a name that leads to it from here; None: GDB may find it.

    GDB 13.1 does not find one that was deleted, GDB 16.3 none in another container; and it reads the symbols of one
    that it must find itself while the process stands still.
    """
    link = f"/proc/{pid}/exe"
    try:
        name = os.readlink(link)
        if not in_other_mount_namespace(pid) and os.path.samefile(name, link):
            return name if can_be_told(name) else None
    except OSError:
        pass
    try:
        inside = os.readlink(link)
        root = _root_of(pid).rstrip("/")
        if inside.startswith(f"{root}/"):
            inside = inside[len(root):]
        name = f"/proc/{pid}/root{inside}"
        # by its own name, since reports tell it
        return name if can_be_told(name) and os.path.samefile(name, link) else link
    except FileNotFoundError:
        return link
    except OSError:
        return None


def check_process(pid: int) -> None:
    """Raise if a process cannot be looked at, for a reason that can be known before.

    :raises Unreadable: the reason.
    """
    if pid == os.getpid():
        raise Unreadable(f"process {pid} is this launcher itself", "give the PID of another process")
    group = status_field(pid, "Tgid")
    if group is None:
        inside = processes_called(pid)
        if inside:
            named = ", ".join(f"{other} ({printable(process_name(other), 60)})" for other in inside[:_MAX_NAMED])
            raise Unreadable(f"there is no process {pid} here; other PID namespaces have one",
                             f"give its number here: {named}")
        raise Unreadable(f"there is no process {pid}", "`ps -e` lists those that there are; from inside a container "
                         "only its own are seen")
    if group != str(pid):
        raise Unreadable(f"{pid} is a thread of process {group} ({printable(process_name(group), 60)})",
                         f"give the process: {group}")
    if (status_field(pid, "State") or "").startswith(("Z", "X")):
        raise Unreadable(f"process {pid} has ended; its parent, {status_field(pid, 'PPid')}, has not asked for its "
                         "status yet", "look at its parent")
    if (status_field(pid, "TracerPid") or "0") != "0":
        raise Unreadable(*why_not_traced(pid))
    if status_field(pid, "VmSize") is None:
        raise Unreadable(f"process {pid} is a thread of the kernel", "give the PID of a program")


def processes_called(pid: int) -> list[int]:
    """PIDs, in our namespace, of processes that have this number in the PID namespace that they live in.

    Source: Linux 6.1 Documentation/filesystems/proc.rst, NStgid: one number for each namespace, the innermost last.
    """
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            numbers = (status_field(entry, "NStgid") or "").split()
            if len(numbers) > 1 and numbers[-1] == str(pid):
                found.append(int(entry))
    return sorted(found)


def in_namespace_of(pid: int, other: int) -> int:
    """The PID here of the process that has the number `pid` in the PID namespace of the process `other`.

    :raises Unreadable: there is none, or the namespace cannot be seen.
    """
    try:
        wanted = os.readlink(f"/proc/{other}/ns/pid")
    except OSError as error:
        raise Unreadable(f"the PID namespace of process {other} cannot be seen: {error.strerror}",
                         "run it as root, and name a process that there is") from None
    for found in processes_called(pid):
        try:
            if os.readlink(f"/proc/{found}/ns/pid") == wanted:
                return found
        except OSError:
            continue
    if wanted == _own_namespace("pid"):
        return pid
    raise Unreadable(f"there is no process {pid} in the PID namespace of process {other}",
                     f"`nsenter -t {other} -p -m ps -e` lists those that there are")


def in_other_mount_namespace(pid: int) -> bool:
    """Whether the names of a process's files mean other files here: another mount namespace, or another root."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt") != _own_namespace("mnt") or _root_of(pid) != "/"
    except OSError:
        return False


def _root_of(pid: int) -> str:
    """The root directory of a process, by its path in the process's mount namespace.

    :raises OSError: it cannot be read.
    """
    return os.readlink(f"/proc/{pid}/root")


def _own_namespace(kind: str) -> str | None:
    try:
        return os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return None
