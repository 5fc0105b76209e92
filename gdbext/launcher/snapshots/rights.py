"""The rights that one process needs to trace another, and which of them is missing."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gdbext.elf.core_file import read_core_file
from gdbext.inferior.proc.files import numbers, read_text
from gdbext.inferior.proc.status import process_name, state_of, status_field, tracer_of
from gdbext.inferior.proc.stopped import read_stopped
from gdbext.narrate.sentences import stopped_by
from gdbext.narrate.words import plain
from gdbext.render.escape import printable

#: Bits of capability sets. Source: Linux 6.1 include/uapi/linux/capability.h.
CAP_SYS_CHROOT, CAP_SYS_PTRACE, CAP_SYS_ADMIN = 18, 19, 21
# the path of a control group names the software that made the container
_CONTAINERS = (("docker", "Docker"), ("kubepods", "Kubernetes"), ("libpod", "Podman"), ("lxc", "LXC"),
               ("containerd", "containerd"))
#: How long a thread must be in an uninterruptible sleep, in seconds.
_STILL = 0.3
#: Most characters of the name of a function of the kernel.
_MOST_CHARACTERS = 200
_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


def why_not_traced(pid: int) -> tuple[str, str]:
    """Why this process cannot trace another, and what to do about it.

    Source: Linux 6.1 kernel/ptrace.c, __ptrace_may_access and ptrace_attach; security/yama/yama_lsm.c.
    """
    what = f"process {pid} may not be traced"
    tracer = status_field(pid, "TracerPid")
    if tracer is not None and tracer != "0":
        return (f"process {pid} is already traced by process {tracer} ({process_name(tracer)})",
                "a process has one tracer at a time: end that one first")
    owner = (status_field(pid, "Uid") or "").split()
    own = str(os.geteuid())
    if owner and own != "0" and set(owner[:3]) != {own}:
        if owner[0] == own:
            other = next(user for user in owner[1:3] if user != own)
            return (f"{what}: you started it, but it runs a set-user-ID program with the rights of user {other}",
                    "run gdbext as root (sudo)")
        return f"{what}: it belongs to user {owner[0]}, you are user {os.geteuid()}", "use sudo, or be that user"
    if not has_capability(CAP_SYS_PTRACE):
        scope = ptrace_scope()
        if scope == 3:
            return (f"{what}: kernel.yama.ptrace_scope is 3, which forbids tracing for everybody",
                    "only a reboot without it helps; use a core")
        if scope:
            return (f"{what}: kernel.yama.ptrace_scope is {scope}",
                    "run gdbext as root (sudo), or allow it: sysctl kernel.yama.ptrace_scope=0")
    if status_field("self", "Seccomp") == "2" or (os.geteuid() == 0 and not has_capability(CAP_SYS_PTRACE)):
        container = container_kind()
        where = "from inside this container" if container else "from here: the capability or a system call is denied"
        return f"{what} {where}", give_capability(container)
    where = ", in the container of the process or on its host" if container_kind() else ""
    return f"{what}: it has more rights than you, or has made itself undumpable", f"run gdbext as root (sudo){where}"


def give_capability(container: str | None) -> str:
    """How the missing right is given.

    :param container: the kind of container that this process is in, None outside.
    """
    if container is None:
        return ("run gdbext as root with CAP_SYS_PTRACE (sudo), outside of what has dropped it or filters system "
                "calls, such as a service or a sandbox")
    return "give the container the capability SYS_PTRACE (docker run --cap-add=SYS_PTRACE), or run gdbext on the host"


def container_kind() -> str | None:
    """The kind of container that this process is in; None if it is in none, or that is not known."""
    if os.path.exists("/.dockerenv"):
        return "Docker"
    if os.path.exists("/run/.containerenv"):
        return "Podman"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    try:
        groups = Path("/proc/1/cgroup").read_text(errors="replace")
    except OSError:
        return None
    return next((kind for word, kind in _CONTAINERS if word in groups), None)


def why_not_attached(pid: int) -> str | None:
    """Why GDB should not attach to a process: it could not, or would pause it for long; None if it may.

    A thread in an uninterruptible sleep stops for no debugger, and GDB keeps the other threads stopped until it does.
    """
    stopped = read_stopped(pid)
    if stopped is not None and stopped.by != "signal":
        return printable(plain(stopped_by(stopped)))
    if state_of(pid) in ("Z", "X"):
        return "its first thread has ended, and GDB attaches to no other"
    tracer = tracer_of(pid)
    if tracer is not None:
        return f"process {tracer} ({printable(process_name(tracer))}) traces the process"
    asleep = _uninterruptible(pid)
    if asleep:
        time.sleep(_STILL)  # a thread that reads a page from the disk is in this state for a moment
        asleep &= _uninterruptible(pid)
    if not asleep:
        return None
    tid, _ = min(asleep)
    function = printable(read_text(f"/proc/{tid}/wchan", _MOST_CHARACTERS) or "0")
    where = f" ({function})" if function != "0" else ""
    return f"thread {tid} is in an uninterruptible sleep in the kernel{where}, so no debugger can stop it"


def _uninterruptible(pid: int) -> set[tuple[int, str | None]]:
    """The threads in an uninterruptible sleep, each with how often it has gone to sleep."""
    return {(tid, status_field(tid, "voluntary_ctxt_switches")) for tid in numbers(f"/proc/{pid}/task")
            if state_of(tid) == "D"}


def process_is_anothers(pid: int) -> bool:
    """Whether a process runs with the rights of another user, or was started by another user."""
    users = (status_field(pid, "Uid") or "").split()
    return bool(set(users) - {str(os.geteuid())})


def core_is_anothers(path: str) -> bool:
    """Whether a core belongs to another user: the file, or the process that it was made of."""
    core = read_core_file(path)
    return core is not None and bool({core.owner, core.user} - {os.geteuid(), None})


def ptrace_scope() -> int | None:
    """``kernel.yama.ptrace_scope``; None without that security module."""
    try:
        return int(_PTRACE_SCOPE.read_text())
    except (OSError, ValueError):
        return None


def has_capability(number: int, pid: int | str = "self") -> bool:
    """Whether a capability is in effect for a process."""
    effective = status_field(pid, "CapEff")
    return effective is not None and bool(int(effective, 16) >> number & 1)
