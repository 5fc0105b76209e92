"""The processes of this machine that are ranks of a job, by the variables that their launcher has set."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gdbext.errors import GdbextError
from gdbext.inferior.launchers import identity_of
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.proc.status import parent_of, process_tree
from gdbext.model import Identity


def find_ranks(pids: Iterable[int]) -> dict[int, Identity]:
    """The ranks of jobs among some processes and their descendants, by PID.

    A descendant of a rank has its variables, but is a worker of that rank.
    """
    found: dict[int, Identity] = {}
    for root in dict.fromkeys(pids):
        for pid, parent in dict(process_tree(root)).items():
            identity = _identity(pid)
            if identity is None or identity.rank is None:
                continue
            above = parent if pid != root else parent_of(pid)
            if above in found and found[above].rank == identity.rank:
                continue
            found[pid] = identity
    return found


def roots_of_job(pid: int) -> list[int]:
    """The process below which the ranks of a process's job are: itself, or its parent; empty if there is no job."""
    if not os.path.exists(f"/proc/{pid}"):
        return []
    own, parent = _identity(pid), parent_of(pid)
    root = parent if own is not None and own.rank is not None and parent is not None and parent > 1 else pid
    ranks = {identity.rank for identity in find_ranks([root]).values()}
    return [root] if len(ranks) > 1 else []


def _identity(pid: int) -> Identity | None:
    try:
        proc = Proc(pid)
    except GdbextError:  # it has ended meanwhile
        return None
    return identity_of(proc.environment(), proc.command_line())
