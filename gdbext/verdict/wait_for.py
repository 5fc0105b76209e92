"""Deadlocks of one process: the wait-for graph of its threads and locks, with evidence for each edge. Pure.

A waiter of a lock with several holders needs all of them to release it (rwlock, barrier, join), or just one of them
(semaphore); see `Lock.wait_for`. Which threads are stuck, and the cycles among them: `verdict.graph`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gdbext.model import (
    EXCLUSIVE,
    INFERRED,
    RECORDED,
    RESULT_STATES,
    SHARED,
    TO_READ,
    Deadlock,
    Edge,
    Evidence,
    Lock,
    Thread,
    Wait,
    weakest,
)
from gdbext.model.kinds import GIL, kind_of
from gdbext.model.reasons import Reason, because, joined
from gdbext.verdict.ended_by import only_this_process_ends
from gdbext.verdict.graph import Need, find_behind, find_cycles, find_stuck


def find_deadlocks(threads: Sequence[Thread], locks: Iterable[Lock]) -> tuple[Deadlock, ...]:
    """All deadlocks, by ascending number of their first thread.

    :param threads: with their waits; a timed wait ends by itself, so its thread is never stuck.
    :param locks: with their holders. A lock whose holders are not known, or only as candidates, holds nobody up.
    """
    by_id = {lock.id: lock for lock in locks}
    writers = {thread.waits.lock for thread in threads
               if thread.waits is not None and thread.waits.mode == EXCLUSIVE and not thread.waits.timed}
    waits = {thread.number: by_id[thread.waits.lock] for thread in threads
             if thread.waits is not None and not thread.waits.timed and thread.waits.lock in by_id
             and not _may_join_readers(thread.waits, by_id[thread.waits.lock], writers)}
    evidence = {thread.number: (thread.waits.evidence, thread.waits.why) for thread in threads if thread.waits}
    stuck = find_stuck({number: Need(frozenset(holder.thread for holder in lock.holders), lock.wait_for != "any")
                        for number, lock in waits.items()},
                       [number for number, lock in waits.items() if lock.orphan])
    edges = {number: _edges(number, waits[number], stuck, evidence[number]) for number in stuck}
    graph = {number: [edge.holder for edge in found if edge.holder is not None] for number, found in edges.items()}
    deadlocks = [_cycle(members, edges, graph) for members in find_cycles(graph)]
    deadlocks += _orphans(stuck, waits, edges, graph)
    return tuple(sorted(deadlocks, key=lambda deadlock: deadlock.threads))


def find_standstill(threads: Sequence[Thread], locks: Iterable[Lock], first: int,
                    wants_alone: bool = False, closed: Collection[int] = ()) -> Deadlock | None:
    """A standstill: every thread waits, untimed, for what only the others could do.

    :param first: the process's first thread, in which Python runs the handlers of signals: where that one waits for
        anything to happen, a signal may be what it waits for, and there is no standstill.
    :param closed: threads whose event loops watch nothing but what other threads wake them by, and have no timer.
    :return: None as well where a thread runs or waits for something else, or another process may step in.
    """
    by_id = {lock.id: lock for lock in locks}
    # a thread that makes a result is no such cause
    wanted = {thread.waits.lock for thread in threads if thread.waits is not None
              and thread.waits.lock in by_id and by_id[thread.waits.lock].state not in RESULT_STATES}
    edges = []
    for thread in threads:
        lock = by_id.get(thread.waits.lock) if thread.waits is not None else None
        is_timed = thread.waits is not None and thread.waits.timed and thread.number not in closed
        if thread.waits is None or lock is None or is_timed or lock.shared or lock.state == "free":
            return None
        kind = kind_of(lock.kind)
        if kind.behaviour == "outside":
            if thread.number not in closed and not only_this_process_ends(lock):
                return None
            # a thread that has a lock which others want is the cause, unless it is an event loop that they wake
            held = [by_id[hold.lock].kind for hold in thread.holds if hold.lock in wanted]
            if held and (GIL in held or lock.state == TO_READ):
                return None
            edges.append(Edge(thread.number, lock.id, None, INFERRED))
            continue
        if not kind.own_threads_only or kind.passed_on and not lock.holders:
            return None
        # the handler of a signal does not do the work of other threads
        if (thread.number == first and kind.released_by == "python-handlers" and lock.state not in RESULT_STATES
                and not lock.holders and not wants_alone):
            return None
        holder = lock.holders[0].thread if lock.holders else None
        edges.append(Edge(thread.number, lock.id, holder, INFERRED))
    if not edges or first not in {edge.waiter for edge in edges}:
        return None
    return Deadlock(tuple(edge.waiter for edge in edges), INFERRED, tuple(edges),
                    because("every-thread-waits"), standstill=True)


def _may_join_readers(waits: Wait, lock: Lock, writers: Collection[str]) -> bool:
    """Whether a reader may continue though other readers hold the lock.

    It waits behind them only because a writer waits. A writer with a timeout gives up, and then the readers join.

    :param writers: ids of the locks for which a writer waits without a timeout.
    """
    held = bool(lock.holders) and all(holder.mode == SHARED for holder in lock.holders)
    return waits.mode == SHARED and held and lock.id not in writers


def _edges(waiter: int, lock: Lock, stuck: set[int], wait: tuple[Evidence, Reason | None]) -> list[Edge]:
    found = [Edge(waiter, lock.id, holder.thread, weakest([holder.evidence, wait[0]]), holder.why or wait[1])
             for holder in lock.holders if holder.thread in stuck]
    if lock.orphan:
        found.append(Edge(waiter, lock.id, None, weakest([lock.orphan_evidence, wait[0]]), wait[1]))
    return found


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
                    find_behind(members, graph))


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
        why = because("owner-gone", lock=lock.id, orphan=lock.orphan,
                      why=lock.why if lock.orphan_evidence != RECORDED else None)
        found.append(Deadlock(tuple(members), weakest([edge.evidence for edge in own]), tuple(own), why,
                              find_behind(members, graph)))
    return found
