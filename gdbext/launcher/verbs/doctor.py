"""The verb `doctor`: checks the requirements of the other verbs, and says what to do about a missing one."""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Iterator

from gdbext.inferior.proc.status import status_field
from gdbext.launcher.cli import add_gdb
from gdbext.launcher.kernel_cores import core_pattern, who_keeps
from gdbext.launcher.output import write_line
from gdbext.launcher.snapshots.elf import ONLY_DECODED, is_decoded
from gdbext.launcher.snapshots.finding import find_gdb, probe
from gdbext.launcher.snapshots.rights import (
    CAP_SYS_ADMIN,
    CAP_SYS_PTRACE,
    container_kind,
    give_capability,
    has_capability,
    ptrace_scope,
)
from gdbext.launcher.status import NO_ANSWER, NO_GDB, NOTHING_FOUND, NoGdb
from gdbext.record import record

NAME = "doctor"
HELP = "check the requirements of the other verbs"
DESCRIPTION = """\
Checks the GDB and its Python, the rights to trace processes (inside a container: the
one capability or flag that is missing), and whether and where programs that crash
leave cores. For each failure it says what to do."""
EXAMPLES = """\
examples:
  gdbext doctor
  gdbext doctor --gdb /opt/gdb/bin/gdb

exit status: 0 all is well, 3 something is missing, 4 no GDB or a GDB without Python"""

_GOOD, _BAD, _NOTE = "ok", "missing", "note"
#: The initial namespaces have fixed numbers. Source: Linux 6.1 include/linux/proc_ns.h.
_INITIAL_PIDS, _INITIAL_USERS = "pid:[4026531836]", "user:[4026531837]"


@record
class Finding:
    """The result of one check: ``ok``, ``missing`` or ``note``, what was found, and what to do."""

    state: str
    what: str
    remedy: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_gdb(parser)


def run(options: argparse.Namespace) -> int:
    """Check everything, and print the results."""
    status = NOTHING_FOUND
    try:
        findings = [*check_gdb(options.gdb)]
    except NoGdb as error:
        findings, status = [Finding(_BAD, str(error), error.hint),
                            Finding(_NOTE, "processes and cores are read without GDB; it adds commands for a session, "
                                    "and variables of native functions")], NO_GDB
    findings += [*check_processor(), *check_rights(), *check_cores()]
    for finding in findings:
        write_line(f"{finding.state:<8} {finding.what}")
        if finding.remedy:
            write_line(f"{'':<8} -> {finding.remedy}")
    if status == NOTHING_FOUND and any(finding.state == _BAD for finding in findings):
        status = NO_ANSWER
    return status


def check_gdb(named: str | None) -> Iterator[Finding]:
    """Check the GDB and its Python.

    :raises NoGdb: there is no usable GDB.
    """
    gdb = probe(find_gdb(named))
    gdb.check()
    yield Finding(_GOOD, f"{gdb.path}: {gdb.version}")
    yield Finding(_GOOD, f"Python {'.'.join(map(str, gdb.python or ()))} inside it")
    if gdb.pygments:
        yield Finding(_GOOD, f"pygments {gdb.pygments}, for the colours of source lines")
    else:
        yield Finding(_NOTE, "its Python has no pygments: source lines have no colour",
                      "Debian, Ubuntu: apt install python3-pygments")


def check_processor() -> Iterator[Finding]:
    """Check whether processes of this machine can be read."""
    machine = os.uname().machine
    if not is_decoded(machine):
        yield Finding(_BAD, f"the processor of this machine is {machine}: its processes and cores cannot be read",
                      ONLY_DECODED)


def check_rights() -> Iterator[Finding]:
    """Check which processes can be traced."""
    scope, traces = ptrace_scope(), has_capability(CAP_SYS_PTRACE)
    container = container_kind()
    if scope == 3:
        yield Finding(_BAD, "kernel.yama.ptrace_scope is 3: no process can be traced", "use cores, or boot without "
                      "it")
    elif traces:
        within = (f"; of this container ({container}) only"
                  if container and _namespace("pid") not in (_INITIAL_PIDS, None) else "")
        if _namespace("user") in (_INITIAL_USERS, None):
            yield Finding(_GOOD, f"processes of all users can be traced (CAP_SYS_PTRACE){within}")
        else:
            yield Finding(_GOOD, f"processes of this user namespace can be traced (CAP_SYS_PTRACE in it only){within}")
            yield Finding(_NOTE, "processes outside of this user namespace, and programs with more rights, cannot",
                          "run gdbext outside of the namespace, as root")
    elif os.geteuid() == 0:
        where = f", in a container ({container})" if container else ""
        yield Finding(_BAD, f"you are root without CAP_SYS_PTRACE{where}: processes of others, and those with more "
                      "rights, cannot be traced", _capability(container))
    elif scope:
        yield Finding(_BAD, f"kernel.yama.ptrace_scope is {scope}: "
                      + ("only children can be traced" if scope == 1 else "only root can trace"),
                      "sudo gdbext ..., or sysctl kernel.yama.ptrace_scope=0")
    else:
        yield Finding(_GOOD, f"your own processes can be traced (user {os.geteuid()}); others: sudo")
    if status_field("self", "Seccomp") == "2":
        yield from _check_filter(container)
    if container and traces and not has_capability(CAP_SYS_ADMIN):
        yield Finding(_NOTE, "no CAP_SYS_ADMIN: files of other containers are read through /proc/PID/root")


def _check_filter(container: str | None) -> Iterator[Finding]:
    """Check whether a filter of system calls allows ptrace, by a call for a process that does not exist."""
    import ctypes
    import errno

    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    # PTRACE_ATTACH; PIDs are less than 2**22
    libc.ptrace(16, (1 << 22) + 1, None, None)
    if ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
        # reading /proc/PID/mem needs the right to trace, and not the system call
        yield Finding(_NOTE, "a seccomp filter forbids ptrace: GDB cannot attach, and a process whose threads "
                      "never sleep cannot be read; others can, without GDB",
                      _capability(container))
    else:
        yield Finding(_GOOD, "the seccomp filter here allows ptrace")


def _capability(container: str | None) -> str:
    """How to grant the needed capability; with it, Docker's filter of system calls also allows ptrace."""
    if container == "Kubernetes":
        return ("kubectl debug --profile=sysadmin -it POD --target=CONTAINER --image=..., or "
                "securityContext.capabilities.add: [SYS_PTRACE]")
    if container in ("Docker", "Podman"):
        return f"{container.lower()} run --cap-add=SYS_PTRACE ..., or run gdbext on the host"
    return give_capability(container)


def _namespace(kind: str) -> str | None:
    """The name of a namespace of this process; None if it cannot be read."""
    try:
        return os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return None


def check_cores() -> Iterator[Finding]:
    """Check whether and where programs that crash leave cores, and what these contain."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    pattern = core_pattern()
    if pattern is None:
        return
    piped = pattern.startswith("|")
    if soft == 0 and not piped:
        yield Finding(_NOTE, "programs started from here leave no cores: the limit on core size is 0",
                      "ulimit -c unlimited, before they are started" if hard else
                      "the hard limit is 0 too: LimitCORE=infinity for a service, docker run --ulimit core=-1")
    elif not piped and soft != resource.RLIM_INFINITY:
        yield Finding(_NOTE, f"cores are cut off at {soft >> 10:,} KiB", "ulimit -c unlimited")
    if not pattern:
        yield Finding(_NOTE, "kernel.core_pattern is empty: no cores are made", "sysctl kernel.core_pattern=core.%p")
    elif piped:
        yield Finding(_GOOD, f"cores go to a program: {pattern}", who_keeps(pattern))
    elif "/" in pattern:
        folder = os.path.dirname(pattern)
        there = os.path.isdir(folder)
        yield Finding(_GOOD if there else _BAD, f"cores are written to {pattern}" + (
            "" if there else ", and there is no such folder"), "" if there else f"mkdir -p {folder}")
    else:
        yield Finding(_GOOD, f"cores are written to the working directory of the program, as {pattern}")
    yield from _check_contents()


def _check_contents() -> Iterator[Finding]:
    """Check whether cores contain the memory that gdbext reads. Source: core(5), coredump_filter."""
    try:
        with open("/proc/self/coredump_filter", encoding="ascii") as file:
            kept = int(file.read(), 16)
    except (OSError, ValueError):
        return
    if kept & 1 == 0:
        yield Finding(_BAD, "cores lack the program's own memory (coredump_filter)",
                      "echo 0x33 > /proc/self/coredump_filter, before it is started")
    elif kept & 0x10 == 0:
        yield Finding(_NOTE, "cores lack the headers of files, hence build ids (coredump_filter)",
                      "echo 0x33 > /proc/self/coredump_filter, before it is started")
