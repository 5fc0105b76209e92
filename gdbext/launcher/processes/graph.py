"""The wait-for graph of threads of several processes, and its cycles. Pure.

`processes.edges` finds what each thread waits for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from gdbext.model import INFERRED, RECORDED, Evidence, weakest
from gdbext.record import record
from gdbext.verdict.graph import Need, find_behind, find_cycles, find_stuck


class Node(NamedTuple):
    """A thread: its process, and its number in the document of that."""

    pid: int
    thread: int


@record
class Wait:
    """What a thread waits for, and the threads that can end that: all of them have to act, or any.

    `kind` is ``pipe``, ``socket``, ``descriptors``, ``child``, that of a lock in shared memory, or ``lock`` for one
    inside of the process; `what` says it in words. `idle` waits are for work that any other thread may give.
    """

    kind: str
    what: str
    holders: frozenset[Node]
    all_of: bool = False
    evidence: Evidence = RECORDED
    why: tuple[str, ...] = ()
    idle: bool = False


@record
class Between:
    """A deadlock of threads of several processes."""

    members: tuple[Node, ...]
    evidence: Evidence
    why: tuple[str, ...]
    behind: tuple[Node, ...] = ()

    @property
    def processes(self) -> tuple[int, ...]:
        """The numbers of the processes, ascending."""
        return tuple(sorted({node.pid for node in self.members}))


def find_deadlocks(waits: Mapping[Node, Wait], dead: Collection[Node] = ()) -> list[Between]:
    """The deadlocks of several processes: threads that wait for one another, across processes, and cannot run again.

    :param dead: threads that are known never to run again.
    """
    stuck = find_stuck({node: Need(wait.holders, wait.all_of) for node, wait in waits.items()}, dead)
    graph = {node: sorted(waits[node].holders & stuck) for node in stuck if node in waits}
    found = []
    for members in find_cycles(graph):
        if len({member.pid for member in members}) < 2:
            continue
        evidence = [waits[member] for member in members if not waits[member].idle]
        reasons = list(dict.fromkeys(reason for wait in evidence for reason in wait.why))
        if any(wait.evidence == INFERRED for wait in evidence):
            reasons.append("no thread of these can run")
        weakest_evidence = weakest([wait.evidence for wait in evidence]) if evidence else INFERRED
        found.append(Between(tuple(members), weakest_evidence, tuple(reasons), find_behind(members, graph)))
    return found
