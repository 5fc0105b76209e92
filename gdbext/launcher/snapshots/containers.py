"""Processes: whether a PID can be read, and how GDB opens files of another container."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from gdbext.inferior.proc.status import has_ended, living_task, process_name, status_field
from gdbext.launcher.snapshots.elf import check_machine
from gdbext.launcher.snapshots.preparation import Preparation
from gdbext.launcher.snapshots.rights import CAP_SYS_ADMIN, CAP_SYS_CHROOT, container_kind, has_capability
from gdbext.launcher.status import Unreadable
from gdbext.render.escape import fits_in_command, printable

#: How many processes of other namespaces a message names.
_MAX_NAMED = 3


def prepare_process(pid: int, files: contextlib.ExitStack, sysroot: Path | None = None) -> Preparation:
    """Prepare a GDB to open a process and its files.

    :param files: removes temporary files.
    :raises Unreadable: there is no such process, or it cannot be traced.
    """
    check_process(pid)
    executable = _executable_of(living_task(pid))
    is_mistaken = executable is not None and _is_mistaken(executable)
    if sysroot is None and _is_entered(pid):
        # GDB then finds the executable itself
        return Preparation(executable=None if is_mistaken else executable)
    found = _prepare_files(pid, executable, sysroot)
    if executable is None or not is_mistaken:
        return found
    # GDB would also compare the executable with the other file, and load that
    return replace(found, settings=("set exec-file-mismatch off", *found.settings), temporary=True,
                   executable=_copied(executable, files))


def _is_entered(pid: int) -> bool:
    """Whether GDB enters the mount namespace of a process: if it may, always at the root folder of the namespace."""
    return (in_other_mount_namespace(pid) and _root_of(pid) == "/" and has_capability(CAP_SYS_ADMIN)
            and has_capability(CAP_SYS_CHROOT))


def _prepare_files(pid: int, executable: str | None, sysroot: Path | None) -> Preparation:
    if sysroot is not None:
        root = str(sysroot.absolute())
        if not fits_in_command(root):
            raise Unreadable("GDB commands cannot contain this folder's name, which has a line feed or is not UTF-8: "
                             f"{printable(root)}", "make a link to it that has another name, and name that")
        return Preparation((f"set sysroot {root}",), executable=executable)
    if not in_other_mount_namespace(pid):
        return Preparation(executable=executable)
    return Preparation((f"set sysroot /proc/{pid}/root",), executable=executable,
                       notes=(f"files of another container, read through /proc/{pid}/root",))


def _is_mistaken(name: str) -> bool:
    """Whether GDB would read another file: it resolves links by their text, also those of /proc that lead elsewhere.

    Source: GDB 13.1 gdb/symfile.c, symfile_bfd_open; gdbsupport/pathstuff.cc, gdb_realpath.
    """
    other = os.path.realpath(name)
    try:
        return not os.path.samefile(other, name)
    except OSError:  # there is no other file
        return False


def _copied(name: str, files: contextlib.ExitStack) -> str:
    """A copy of an executable, under its name in a temporary folder.

    :raises Unreadable: there is no room for it.
    """
    folder = files.enter_context(tempfile.TemporaryDirectory(prefix="gdbext-"))
    copy = os.path.join(folder, os.path.basename(os.path.realpath(name)))
    try:
        shutil.copyfile(name, copy)
    except OSError as error:
        raise Unreadable(f"{printable(name)} cannot be copied: {error.strerror}",
                         f"make room in {tempfile.gettempdir()}, or read the process without GDB: --no-gdb") from None
    return copy


def _executable_of(pid: int) -> str | None:
    """A name of the executable that works here; None: GDB must find it.

    GDB 13.1 does not find a deleted executable, GDB 16.3 none in another container. While GDB reads the symbols of an
    executable that it finds itself, the process is paused.
    """
    link = f"/proc/{pid}/exe"
    try:
        name = os.readlink(link)
        if not in_other_mount_namespace(pid) and os.path.samefile(name, link):
            return name if fits_in_command(name) else None
    except OSError:
        pass
    try:
        inside = os.readlink(link)
        root = _root_of(pid).rstrip("/")
        if inside.startswith(f"{root}/"):
            inside = inside[len(root):]
        name = f"/proc/{pid}/root{inside}"
        # its own name, since reports show it
        return name if fits_in_command(name) and os.path.samefile(name, link) else link
    except FileNotFoundError:
        return link
    except OSError:
        return None


def check_process(pid: int) -> None:
    """Raise if it is known beforehand that a process cannot be read.

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
        raise Unreadable(f"there is no process {pid}", "`ps -e` lists the processes"
                         + ("; inside a container only its own are visible" if container_kind() else ""))
    if group != str(pid):
        raise Unreadable(f"{pid} is a thread of process {group} ({printable(process_name(group), 60)})",
                         f"give the process: {group}")
    task = living_task(pid)
    if has_ended(task):
        raise Unreadable(f"process {pid} has ended; its parent, {status_field(pid, 'PPid')}, has not read its "
                         "status yet", "name its parent")
    if status_field(task, "VmSize") is None:
        raise Unreadable(f"process {pid} is a thread of the kernel", "give the PID of a program")
    with contextlib.suppress(OSError), open(f"/proc/{task}/exe", "rb", buffering=0) as file:
        check_machine(file.read(64), f"process {pid}")


def processes_called(pid: int) -> list[int]:
    """The PIDs, in this namespace, of processes that have the number `pid` in their own PID namespace.

    Source: Linux 6.1 Documentation/filesystems/proc.rst, NStgid: one number per namespace, the innermost last.
    """
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            numbers = (status_field(entry, "NStgid") or "").split()
            if len(numbers) > 1 and numbers[-1] == str(pid):
                found.append(int(entry))
    return sorted(found)


def in_namespace_of(pid: int, other: int) -> int:
    """The PID, in this namespace, of the process with the number `pid` in the PID namespace of process `other`.

    :raises Unreadable: there is none, or the namespace may not be read.
    """
    try:
        wanted = os.readlink(f"/proc/{other}/ns/pid")
    except OSError as error:
        raise Unreadable(f"the PID namespace of process {other} cannot be read: {error.strerror}",
                         "run gdbext as root, and name a running process") from None
    for found in processes_called(pid):
        try:
            if os.readlink(f"/proc/{found}/ns/pid") == wanted:
                return found
        except OSError:
            continue
    if wanted == _own_namespace("pid"):
        return pid
    raise Unreadable(f"there is no process {pid} in the PID namespace of process {other}",
                     f"`nsenter -t {other} -p -m ps -e` lists its processes")


def in_other_mount_namespace(pid: int) -> bool:
    """Whether paths of a process mean other files here: it has another mount namespace, or another root folder."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt") != _own_namespace("mnt") or _root_of(pid) != "/"
    except OSError:
        return False


def _root_of(pid: int) -> str:
    """The root folder of a process, as a path in its mount namespace.

    :raises OSError: it cannot be read.
    """
    return os.readlink(f"/proc/{pid}/root")


def _own_namespace(kind: str) -> str | None:
    try:
        return os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return None
