"""The wait-for graph: which threads can never run again, and the cycles that hold them. Pure.

A waiter of a lock with several holders needs all of them to let go (rwlock, barrier, join), or just one of them
(semaphore); see `Lock.wait_for`. A thread is stuck when its wait cannot end whatever the threads do that are not
stuck. The set of stuck threads is the greatest one that supports itself; the cycles are its strongly connected
components.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gdbext.model import INFERRED, RECORDED, RESULT_STATES, Deadlock, Edge, Lock, Thread, weakest
from gdbext.model.kinds import kind_of
from gdbext.model.reasons import Reason, because, joined


def find_deadlocks(threads: Sequence[Thread], locks: Iterable[Lock]) -> tuple[Deadlock, ...]:
    """All deadlocks, by ascending number of their first thread.

    :param threads: with their waits; a timed wait ends by itself, so its thread is never stuck.
    :param locks: with their holders. A lock whose holders are not known, or only as candidates, holds nobody up.
    """
    by_id = {lock.id: lock for lock in locks}
    waits = {thread.number: by_id[thread.waits.lock] for thread in threads
             if thread.waits is not None and not thread.waits.timed and thread.waits.lock in by_id}
    evidence = {thread.number: (thread.waits.evidence, thread.waits.why) for thread in threads if thread.waits}
    stuck = _stuck(waits)
    edges = {number: _edges(number, waits[number], stuck, evidence[number]) for number in stuck}
    graph = {number: [edge.holder for edge in found if edge.holder is not None] for number, found in edges.items()}
    cycles = [component for component in _components(graph) if _is_cycle(component, graph)]
    deadlocks = [_cycle(sorted(component), edges, graph) for component in cycles]
    deadlocks += _orphans(stuck, waits, edges, graph)
    return tuple(sorted(deadlocks, key=lambda deadlock: deadlock.threads))


def find_standstill(threads: Sequence[Thread], locks: Iterable[Lock], first: int,
                    wants_alone: bool = False) -> Deadlock | None:
    """A standstill: every thread waits, untimed, for what only the others could do.

    :param first: the process's first thread, in which Python runs the handlers of signals: where that one waits for
        anything to happen, a signal may be what it waits for, and there is no standstill.
    :return: None as well where a thread runs or waits for something else, or another process may step in.
    """
    by_id = {lock.id: lock for lock in locks}
    edges = []
    for thread in threads:
        lock = by_id.get(thread.waits.lock) if thread.waits is not None else None
        if thread.waits is None or lock is None or thread.waits.timed or lock.shared or lock.state == "free":
            return None
        kind = kind_of(lock.kind)
        if not kind.own_threads_only or kind.passed_on and not lock.holders:
            return None
        # the handler of a signal does not do the work of other threads
        if (thread.number == first and kind.may_await_signal and lock.state not in RESULT_STATES and not lock.holders
                and not wants_alone):
            return None
        holder = lock.holders[0].thread if lock.holders else None
        edges.append(Edge(thread.number, lock.id, holder, INFERRED))
    if not edges or first not in {edge.waiter for edge in edges}:
        return None
    return Deadlock(tuple(edge.waiter for edge in edges), INFERRED, tuple(edges),
                    because("every-thread-waits"),
                    standstill=True)


def _stuck(waits: Mapping[int, Lock]) -> set[int]:
    stuck = {number for number, lock in waits.items() if lock.holders or lock.orphan}
    changed = True
    while changed:
        changed = False
        for number in sorted(stuck):
            lock = waits[number]
            holders = {holder.thread for holder in lock.holders}
            if lock.orphan:
                held_up = True
            elif lock.wait_for == "any":
                held_up = bool(holders) and holders <= stuck
            else:
                held_up = bool(holders & stuck)
            if not held_up:
                stuck.discard(number)
                changed = True
    return stuck


def _edges(waiter: int, lock: Lock, stuck: set[int], wait: tuple[str, Reason | None]) -> list[Edge]:
    found = [Edge(waiter, lock.id, holder.thread, weakest([holder.evidence, wait[0]]), holder.why or wait[1])
             for holder in lock.holders if holder.thread in stuck]
    if lock.orphan:
        found.append(Edge(waiter, lock.id, None, weakest([lock.orphan_evidence, wait[0]]), wait[1]))
    return found


def _components(graph: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Strongly connected components (R. Tarjan 1972), without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(graph.get(successor, ()))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    found.append(component)
    return found


def _is_cycle(component: Sequence[int], graph: Mapping[int, Sequence[int]]) -> bool:
    return len(component) > 1 or component[0] in graph[component[0]]


def _behind(members: Iterable[int], graph: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
    """Threads from which some member is reached."""
    callers: dict[int, list[int]] = {}
    for number, holders in graph.items():
        for holder in holders:
            callers.setdefault(holder, []).append(number)
    start = set(members)
    seen, work = set(start), list(start)
    while work:
        for number in callers.get(work.pop(), ()):
            if number not in seen:
                seen.add(number)
                work.append(number)
    return tuple(sorted(seen - start))


def _in_order(members: Sequence[int], edges: Mapping[int, Sequence[Edge]]) -> list[Edge]:
    """The edges among the members, each thread's followed by those of the thread it waits for."""
    inside = set(members)
    left = list(members)
    found: list[Edge] = []
    at = left[0]
    while left:
        if at not in left:
            at = left[0]
        left.remove(at)
        own = [edge for edge in edges[at] if edge.holder in inside]
        found.extend(own)
        at = next((edge.holder for edge in own if edge.holder in left), at)
    return found


def _cycle(members: list[int], edges: Mapping[int, Sequence[Edge]], graph: Mapping[int, Sequence[int]]) -> Deadlock:
    own = _in_order(members, edges)
    return Deadlock(tuple(members), weakest([edge.evidence for edge in own]), tuple(own),
                    joined(list(dict.fromkeys(edge.why for edge in own if edge.why is not None))),
                    _behind(members, graph))


def _orphans(stuck: set[int], waits: Mapping[int, Lock], edges: Mapping[int, Sequence[Edge]],
             graph: Mapping[int, Sequence[int]]) -> list[Deadlock]:
    by_lock: dict[str, list[int]] = {}
    for number in sorted(stuck):
        if waits[number].orphan:
            by_lock.setdefault(waits[number].id, []).append(number)
    found = []
    for members in by_lock.values():
        own = [edge for number in members for edge in edges[number] if edge.holder is None]
        lock = waits[members[0]]
        found.append(Deadlock(tuple(members), weakest([edge.evidence for edge in own]), tuple(own),
                              _orphan_reason(lock), _behind(members, graph)))
    return found


def _orphan_reason(lock: Lock) -> Reason:
    return because("owner-gone", lock=lock.id, orphan=lock.orphan,
                   why=lock.why if lock.orphan_evidence != RECORDED else None)
