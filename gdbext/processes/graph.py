"""The wait-for graph of threads of several processes, and its cycles. Pure.

`processes.edges` finds what each thread waits for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from gdbext.model import INFERRED, RECORDED, Evidence, weakest
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.verdict.graph import Need, find_behind, find_cycles, find_stuck


class Node(NamedTuple):
    """A thread: the PID of its process, and its number in the report of that process."""

    pid: int
    thread: int


@record
class Wait:
    """What a thread waits for, and the threads that can end the wait: all of them must act, or any one.

    `kind` is ``pipe``, ``socket``, ``descriptors``, ``child``, ``file-lock``, the kind of a lock in shared memory, or
    ``lock`` for one inside the process; `awaited` follows "waits" in a sentence. An `idle` wait is for work from any
    other thread. With `may_release` it is not known which of the holders, if any, has what is awaited. The processes
    `inherited` got the other end of a pipe or socket from the process that forked them. A wait for messages is `empty`
    if none is on the way.
    """

    kind: str
    awaited: Reason
    holders: frozenset[Node]
    all_of: bool = False
    evidence: Evidence = RECORDED
    why: tuple[Reason, ...] = ()
    idle: bool = False
    may_release: bool = False
    inherited: tuple[int, ...] = ()
    empty: bool = False


@record
class ProcessDeadlock:
    """A deadlock of threads of several processes; the threads `behind` wait for its members.

    A message is `lost`, or was never sent, if the processes wait for messages of each other, and none is on the way.
    """

    members: tuple[Node, ...]
    evidence: Evidence
    why: tuple[Reason, ...]
    behind: tuple[Node, ...] = ()
    lost: bool = False

    @property
    def processes(self) -> tuple[int, ...]:
        """The PIDs, ascending."""
        return tuple(sorted({node.pid for node in self.members}))

    @property
    def stuck_behind(self) -> tuple[int, ...]:
        """The PIDs of other processes that wait for these, ascending."""
        return tuple(sorted({node.pid for node in self.behind} - set(self.processes)))


def find_deadlocks(waits: Mapping[Node, Wait], dead: Collection[Node] = ()) -> list[ProcessDeadlock]:
    """The cycles of waits across processes in which no thread can run again.

    :param dead: threads that never run again, by the reports of their processes.
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
            reasons.append(because("no-thread-can-run"))
        found.append(ProcessDeadlock(
            tuple(members), weakest([wait.evidence for wait in evidence]) if evidence else INFERRED, tuple(reasons),
            find_behind(members, graph),
            all(waits[member].empty for member in members if any(
                holder.pid != member.pid for holder in waits[member].holders))))
    return found
