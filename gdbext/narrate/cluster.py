"""A Dask cluster on one page: the lines about its processes."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from gdbext.narrate.words import plural

#: The most tasks that are named.
_MANY = 4
#: After how many seconds without a message from a worker the page says so; workers send one twice a second.
_SILENT = 10.0
#: A process without a known role.
_CONNECTED = "connected process"


def name_roles(roles: Sequence[str]) -> str:
    """The roles of a process: ``scheduler, worker and client``."""
    return " and ".join(filter(None, (", ".join(roles[:-1]), *roles[-1:]))) or _CONNECTED


def process_title(roles: Sequence[str], address: str | None, pid: int | None, host: str | None) -> str:
    """A process by its roles, address, PID and machine."""
    where = " ".join(([f"PID {pid}"] if pid else []) + ([f"on {host}"] if host else []))
    return name_roles(roles) + (f" {address}" if address else "") + (f" ({where})" if where else "")


def summary(address: str, processes: Sequence[Sequence[str]], hosts: int) -> str:
    """How many processes there are of each role, and the number of machines on which snapshots were taken."""
    counts = collections.Counter(role for roles in processes for role in roles or (_CONNECTED,))
    parts = [plural(counts[role], role) for role in ("scheduler", "client", "worker", _CONNECTED) if counts[role]]
    examined = f"; examined on {plural(hosts, 'machine')}" if hosts else ""
    return f"Dask cluster {address}: {', '.join(parts)}{examined}"


def class_title(processes: Sequence[Sequence[str]]) -> str:
    """How many processes of a class have which roles."""
    counts = collections.Counter(map(name_roles, processes))
    return ", ".join(plural(number, roles) for roles, number in counts.items())


def process_line(title: str, silent: float | None, tasks: Sequence[str], futures: int, paused: float | None) -> str:
    """A process, and what Dask knows of it.

    :param silent: seconds since the scheduler has heard from it.
    :param paused: how long the snapshot paused it, in seconds.
    """
    parts = [title]
    if silent is not None and silent > _SILENT:
        parts.append(f"silent for {silent:.0f} s")
    if tasks:
        named = ", ".join(tasks[:_MANY]) + (", ..." if len(tasks) > _MANY else "")
        parts.append(f"has {plural(len(tasks), 'task')} to run: {named}")
    if futures:
        parts.append(f"waits for {plural(futures, 'future')}")
    if paused is not None:
        parts.append(f"was paused for {paused:.2f} s")
    return ", ".join(parts)


def scheduler_problem(problem: str) -> str:
    """That the scheduler did not name the processes of its cluster, and why."""
    return f"The scheduler could not name the processes of the cluster: {problem}"
