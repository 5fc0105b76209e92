"""The wait-for graph of threads of several processes, and its cycles. Pure.

Who waits for whom is for `process_edges` to find out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from gdbext.model import EVIDENCE
from gdbext.record import record

RECORDED, DERIVED, INFERRED = EVIDENCE


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
    evidence: str = RECORDED
    why: str | None = None
    idle: bool = False


@record
class Between:
    """A deadlock of threads of several processes."""

    members: tuple[Node, ...]
    evidence: str
    why: str | None
    behind: tuple[Node, ...] = ()

    @property
    def processes(self) -> tuple[int, ...]:
        """The numbers of the processes, ascending."""
        return tuple(sorted({node.pid for node in self.members}))


def find_stuck(waits: Mapping[Node, Wait], dead: Collection[Node] = ()) -> set[Node]:
    """The threads that can never run again whatever the others do; who is in neither argument can run.

    :param dead: threads of which that is known already.
    """
    stuck = {node for node, wait in waits.items() if wait.holders} | set(dead)
    changed = True
    while changed:
        changed = False
        for node in sorted(stuck.difference(dead)):
            wait = waits[node]
            held_up = not wait.holders.isdisjoint(stuck) if wait.all_of else wait.holders <= stuck
            if not held_up:
                stuck.discard(node)
                changed = True
    return stuck


def find_deadlocks(waits: Mapping[Node, Wait], dead: Collection[Node] = ()) -> list[Between]:
    """The deadlocks of several processes: threads that wait for one another, across processes, and cannot run again."""
    stuck = find_stuck(waits, dead)
    graph = {node: sorted(waits[node].holders & stuck) for node in stuck if node in waits}
    reached = {node: _reached(node, graph) for node in graph}
    found, seen = [], set[Node]()
    for node in sorted(graph):
        if node in seen or node not in reached[node]:
            continue
        members = {other for other in reached[node] if node in reached.get(other, ())}
        seen |= members
        if len({member.pid for member in members}) < 2:
            continue
        told = [waits[member] for member in sorted(members) if not waits[member].idle]
        kinds = [wait.evidence for wait in told]
        reasons = list(dict.fromkeys(reason for wait in told if wait.why for reason in wait.why.split("; ")))
        if any(wait.evidence == INFERRED for wait in told):
            reasons.append("no thread of these can run")
        behind = tuple(sorted(other for other, ahead in reached.items() if other not in members and members & ahead))
        found.append(Between(tuple(sorted(members)), max(kinds, key=EVIDENCE.index, default=INFERRED),
                             "; ".join(reasons) or None, behind))
    return found


def _reached(start: Node, graph: Mapping[Node, Sequence[Node]]) -> set[Node]:
    found: set[Node] = set()
    work = [start]
    while work:
        for node in graph.get(work.pop(), ()):
            if node not in found:
                found.add(node)
                work.append(node)
    return found
