"""Graphs drawn by hand: `"1 -> A; 2 -> B"` means that 1 waits for lock A. Locks are capital letters."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from gdbext.model import (
    DERIVED,
    EXCLUSIVE,
    INFERRED,
    RECORDED,
    SHARED,
    Deadlock,
    Edge,
    Evidence,
    Hold,
    Holder,
    Lock,
    Thread,
    Wait,
    Waiter,
    WaitFor,
)
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import Reason, because
from gdbext.narrate.reasons import explain
from gdbext.verdict.wait_for import find_deadlocks, find_standstill
from tests.support.reasons import said, text


def lock(name: str, *holders: int, wait_for: WaitFor = "all", evidence: Evidence = RECORDED, why: Reason | None = None,
         candidates: tuple[int, ...] = (), orphan: Reason | None = None, kind: LockKind = "mutex") -> Lock:
    held = tuple(Holder(number, EXCLUSIVE, evidence, why) for number in holders)
    return Lock(name, kind, 0x1000, None, "locked", held, (), candidates, orphan, wait_for)


def threads(waits: dict[int, str], running: tuple[int, ...] = (), timed: tuple[int, ...] = (),
            evidence: Evidence = RECORDED) -> list[Thread]:
    made = [Thread(number, 100 + number, None, None, status="blocked",
                   waits=Wait(name, EXCLUSIVE, number in timed, evidence)) for number, name in waits.items()]
    return made + [Thread(number, 100 + number, None, None, status="running") for number in running]


def cycles(found: tuple[Deadlock, ...]) -> list[tuple[int, ...]]:
    return [deadlock.threads for deadlock in found]


# -- deadlocks ------------------------------------------------------------------------------------------------

def test_two_threads_two_locks() -> None:
    found, = find_deadlocks(threads({1: "B", 2: "A"}), [lock("A", 1), lock("B", 2)])
    assert found == Deadlock((1, 2), RECORDED, (Edge(1, "B", 2), Edge(2, "A", 1)))


def test_a_thread_that_waits_for_itself() -> None:
    found, = find_deadlocks(threads({1: "A"}), [lock("A", 1)])
    assert found == Deadlock((1,), RECORDED, (Edge(1, "A", 1),))


def test_three_threads_in_a_ring_and_their_edges_in_order() -> None:
    found, = find_deadlocks(threads({1: "C", 2: "A", 3: "B"}), [lock("A", 1), lock("B", 2), lock("C", 3)])
    assert found.threads == (1, 2, 3)
    assert found.edges == (Edge(1, "C", 3), Edge(3, "B", 2), Edge(2, "A", 1))


def test_two_separate_cycles() -> None:
    found = find_deadlocks(threads({4: "D", 5: "C", 1: "B", 2: "A"}),
                           [lock("A", 1), lock("B", 2), lock("C", 4), lock("D", 5)])
    assert cycles(found) == [(1, 2), (4, 5)]
    assert [deadlock.stuck_behind for deadlock in found] == [(), ()]


def test_threads_stuck_behind() -> None:
    # 3 and 4 queue for A, 5 waits for what 3 holds, 6 runs
    found, = find_deadlocks(threads({1: "B", 2: "A", 3: "A", 4: "A", 5: "C"}, running=(6,)),
                            [lock("A", 1), lock("B", 2), lock("C", 3)])
    assert found.threads == (1, 2)
    assert found.stuck_behind == (3, 4, 5)
    assert {edge.waiter for edge in found.edges} == {1, 2}


def test_one_stuck_behind_two_cycles() -> None:
    # 5 waits for a lock that a member of each cycle holds for reading
    found = find_deadlocks(threads({1: "B", 2: "A", 3: "D", 4: "C", 5: "R"}),
                           [lock("A", 1), lock("B", 2), lock("C", 3), lock("D", 4), lock("R", 1, 3)])
    assert [(deadlock.threads, deadlock.stuck_behind) for deadlock in found] == [((1, 2), (5,)), ((3, 4), (5,))]


def test_one_of_several_readers_is_in_the_cycle() -> None:
    # the writer 1 needs all readers to leave; reader 3 runs on, reader 2 never does
    found, = find_deadlocks(threads({1: "R", 2: "A"}, running=(3,)), [lock("R", 2, 3), lock("A", 1)])
    assert found.threads == (1, 2)
    assert found.edges == (Edge(1, "R", 2), Edge(2, "A", 1))


def test_all_of_several_that_could_help_are_stuck() -> None:
    found, = find_deadlocks(threads({1: "S", 2: "A", 3: "A"}), [lock("S", 2, 3, wait_for="any"), lock("A", 1)])
    assert found.threads == (1, 2, 3)
    assert set(found.edges) == {Edge(1, "S", 2), Edge(1, "S", 3), Edge(2, "A", 1), Edge(3, "A", 1)}


def test_gil_and_lock() -> None:
    found, = find_deadlocks(threads({1: "rwlock:0x1", 2: "gil:0", 3: "gil:0", 4: "gil:0"}),
                            [lock("rwlock:0x1", 2, kind="rwlock"), lock("gil:0", 1, kind="gil")])
    assert (found.threads, found.stuck_behind) == ((1, 2), (3, 4))


@pytest.mark.parametrize(("of_lock", "of_wait", "expected"), [
    (RECORDED, RECORDED, RECORDED), (DERIVED, RECORDED, DERIVED), (INFERRED, DERIVED, INFERRED),
    (RECORDED, DERIVED, DERIVED), (DERIVED, INFERRED, INFERRED),
])
def test_a_deadlock_is_as_sure_as_its_weakest_edge(
        of_lock: Evidence, of_wait: Evidence, expected: Evidence) -> None:
    found, = find_deadlocks(threads({1: "B", 2: "A"}, evidence=of_wait),
                            [lock("A", 1), lock("B", 2, evidence=of_lock, why=text("a reason"))])
    assert found.evidence == expected
    assert said(found.why) == "a reason"


def test_evidence_of_those_behind_does_not_weaken_it() -> None:
    found, = find_deadlocks(threads({1: "B", 2: "A", 3: "C", 4: "C"}),
                            [lock("A", 1), lock("B", 2), lock("C", 1, evidence=INFERRED, why=text("guess"))])
    assert (found.evidence, found.why, found.stuck_behind) == (RECORDED, None, (3, 4))


def test_lock_whose_owner_is_gone() -> None:
    found, = find_deadlocks(threads({1: "A", 2: "A", 3: "B"}),
                            [lock("A", orphan=because("thread-exited")), lock("B", 2)])
    assert found.threads == (1, 2)
    assert found.edges == (Edge(1, "A", None), Edge(2, "A", None))
    assert found.stuck_behind == (3,)
    assert found.why is not None
    assert "thread exited" in explain(found.why)


def test_cycle_behind_an_orphan_is_told_once() -> None:
    found = find_deadlocks(threads({1: "A", 2: "C", 3: "B"}),
                           [lock("A", orphan=because("thread-exited")), lock("B", 2), lock("C", 3)])
    assert cycles(found) == [(1,), (2, 3)]


# -- no deadlocks ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("graph", "locks"), [
    (threads({}), []),
    (threads({2: "A"}, running=(1,)), [lock("A", 1)]),
    # a convoy: everybody queues, the first of them runs
    (threads(dict.fromkeys(range(2, 50), "A"), running=(1,)), [lock("A", 1)]),
    (threads({number: str(number - 1) for number in range(2, 50)}, running=(1,)),
     [lock(str(number), number) for number in range(1, 50)]),
    # a timed wait ends by itself, and lets everybody go on
    (threads({1: "B", 2: "A"}, timed=(2,)), [lock("A", 1), lock("B", 2)]),
    (threads({1: "A"}, timed=(1,)), [lock("A", 1)]),
    (threads({1: "C", 2: "A", 3: "B"}, timed=(3,)), [lock("A", 1), lock("B", 2), lock("C", 3)]),
    # a semaphore that anybody may post, a condition variable, an event
    (threads({1: "S", 2: "A"}), [lock("S", wait_for="any"), lock("A", 1)]),
    (threads({1: "S", 2: "A"}, running=(3,)), [lock("S", 2, 3, wait_for="any"), lock("A", 1)]),
    (threads({1: "C", 2: "C", 3: "C"}), [lock("C", wait_for="any", kind="condvar")]),
    # nothing rests on candidates
    (threads({1: "R", 2: "A"}), [lock("R", candidates=(2, 3)), lock("A", 1)]),
    (threads({1: "R"}), [lock("R", candidates=(1,))]),
    # the lock is not known, or nobody holds it any more
    (threads({1: "X", 2: "A"}), [lock("A", 1)]),
    (threads({1: "A", 2: "B"}), [lock("A"), lock("B", 1)]),
    # readers that run
    (threads({1: "R"}, running=(2, 3)), [lock("R", 2, 3)]),
    # the holder is in no list of threads
    (threads({1: "A"}), [lock("A", 77)]),
], ids=["nothing", "one waits", "convoy", "chain", "timed", "timed self", "timed ring", "semaphore",
        "semaphore with help", "condition variable", "candidates", "candidate self", "unknown lock", "free lock",
        "readers run", "unknown thread"])
def test_healthy(graph: list[Thread], locks: list[Lock]) -> None:
    assert find_deadlocks(graph, locks) == ()


# -- any graph ------------------------------------------------------------------------------------------------

def stuck_by_simulation(graph: list[Thread], locks: list[Lock]) -> set[int]:
    """Threads that never run again if those that can run release everything they hold."""
    by_id = {each.id: each for each in locks}
    blocked = {thread.number for thread in graph if thread.waits is not None and not thread.waits.timed}
    waits = {thread.number: by_id[thread.waits.lock] for thread in graph if thread.waits is not None}
    while True:
        free = set()
        for number in blocked:
            holders = [holder.thread in blocked for holder in waits[number].holders]
            helped = not all(holders) or not holders if waits[number].wait_for == "any" else not any(holders)
            if helped:
                free.add(number)
        if not free:
            return blocked
        blocked -= free


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_against_a_simulation(seed: int) -> None:
    chooser = random.Random(seed)
    count, kinds = chooser.randrange(1, 12), chooser.randrange(1, 8)
    locks = [lock(str(i), *chooser.sample(range(count), min(count, chooser.choice([0, 1, 1, 1, 2, 3]))),
                  wait_for=chooser.choice(["all", "all", "any"])) for i in range(kinds)]
    waiting = {number: str(chooser.randrange(kinds)) for number in range(count) if chooser.random() < 0.8}
    timed = tuple(number for number in waiting if chooser.random() < 0.1)
    graph = threads(waiting, tuple(set(range(count)) - set(waiting)), timed)
    expected = stuck_by_simulation(graph, locks)
    found = find_deadlocks(graph, locks)
    told = {number for deadlock in found for number in (*deadlock.threads, *deadlock.stuck_behind)}
    assert told == expected
    members = [number for deadlock in found for number in deadlock.threads]
    assert len(members) == len(set(members)), "a thread is in two cycles"
    for deadlock in found:
        assert set(deadlock.threads) == {edge.waiter for edge in deadlock.edges}
        assert {edge.holder for edge in deadlock.edges} <= set(deadlock.threads)
        assert not set(deadlock.threads) & set(deadlock.stuck_behind)
    # the order of the input changes nothing
    assert find_deadlocks(graph[::-1], locks[::-1]) == found


@pytest.mark.slow
def test_thousands_of_threads() -> None:
    count = 5000
    start = time.process_time()
    ring = find_deadlocks(threads({number: str((number + 1) % count) for number in range(count)}),
                          [lock(str(number), number) for number in range(count)])
    assert [len(deadlock.threads) for deadlock in ring] == [count]
    queue = find_deadlocks(threads({number: str(max(number - 1, 0)) for number in range(count)}),
                           [lock(str(number), number) for number in range(count)])
    assert cycles(queue) == [(0,)]
    assert len(queue[0].stuck_behind) == count - 1
    readers = find_deadlocks(threads({0: "R", **dict.fromkeys(range(1, count), "A")}),
                             [lock("R", *range(1, count)), lock("A", 0)])
    assert [len(deadlock.threads) for deadlock in readers] == [count]
    assert time.process_time() - start < 30


def test_modes_do_not_matter() -> None:
    reader = Lock("R", "rwlock", 0, None, "read-locked", (Holder(2, SHARED, RECORDED),), (Waiter(1, EXCLUSIVE),))
    found, = find_deadlocks(threads({1: "R", 2: "A"}), [reader, lock("A", 1)])
    assert found.threads == (1, 2)


@pytest.mark.parametrize(("writers", "found"), [({}, 0), ({2: False}, 1), ({2: True}, 0), ({2: True, 3: False}, 1),
                                               ({2: True, 3: True}, 0)])
def test_reader_behind_writers_that_give_up_is_not_stuck(writers: dict[int, bool], found: int) -> None:
    held = Lock("R", "rwlock", 0, None, "read-locked", (Holder(1, SHARED, RECORDED),))
    graph = [Thread(1, 101, None, None, status="blocked", waits=Wait("R", SHARED, False))]
    graph += [Thread(number, 100 + number, None, None, status="blocked", waits=Wait("R", EXCLUSIVE, timed))
              for number, timed in writers.items()]
    assert len(find_deadlocks(graph, [held])) == found
    written = replace(held, state="write-locked", holders=(Holder(1, EXCLUSIVE, RECORDED),))
    assert len(find_deadlocks(graph, [written])) == 1


# -- standstill -----------------------------------------------------------------------------------------------

FUTURE, QUEUE = replace(lock("F", kind="py-condition"), state="result is pending"), lock("Q", kind="py-condition")


def test_all_threads_wait_for_one_another() -> None:
    """The only worker of a pool waits for the result of a task of that pool."""
    found = find_standstill(threads({1: "F", 2: "G"}), [FUTURE, replace(FUTURE, id="G")], 1)
    assert found is not None
    assert (found.threads, found.evidence, found.standstill) == ((1, 2), INFERRED, True)
    assert [(edge.waiter, edge.holder) for edge in found.edges] == [(1, None), (2, None)]
    assert found.why


def test_first_thread_waits_for_one_that_waits_for_work() -> None:
    found = find_standstill(threads({1: "end", 2: "Q"}), [lock("end", 2, kind="thread-exit"), QUEUE], 1)
    assert found is not None
    assert [(edge.waiter, edge.holder) for edge in found.edges] == [(1, 2), (2, None)]


@pytest.mark.parametrize("kind", ["py-event", "py-condition", "py-semaphore", "py-lock"])
def test_a_signal_may_be_what_the_first_thread_waits_for(kind: LockKind) -> None:
    assert find_standstill(threads({1: "E", 2: "Q"}), [lock("E", kind=kind), QUEUE], 1) is None


def test_event_loop_that_watches_nothing_from_outside() -> None:
    locks = [lock("S", kind="descriptor"), QUEUE]
    assert find_standstill(threads({1: "S", 2: "Q"}), locks, 1) is None
    assert find_standstill(threads({1: "S", 2: "Q"}), locks, 1, closed=(2,)) is None
    found = find_standstill(threads({1: "S", 2: "Q"}), locks, 1, closed=(1,))
    assert found is not None
    assert found.threads == (1, 2)


@pytest.mark.parametrize(("kind", "state", "found"), [
    ("mutex", "waiting for events", True), ("mutex", "waiting to read", False), ("gil", "waiting for events", False)])
def test_thread_with_a_lock_is_the_cause_unless_its_event_loop_waits_for_the_others(
        kind: LockKind, state: str, found: bool) -> None:
    here = because("other-end-here", fds=(4,))
    locks = [replace(lock("S", kind="descriptor", why=None), state=state, why=here), lock("M", 1, kind=kind)]
    first, second = threads({1: "S", 2: "M"})
    waiting = [replace(first, holds=(Hold("M", EXCLUSIVE, RECORDED),)), second]
    assert (find_standstill(waiting, locks, 1) is not None) is found


def test_first_thread_waits_for_what_a_lock_protects() -> None:
    """At a `with` statement; nobody releases a lock from a signal's handler that others take so."""
    locks = [lock("L", kind="py-lock"), QUEUE]
    found = find_standstill(threads({1: "L", 2: "Q"}), locks, 1, wants_alone=True)
    assert found is not None
    assert found.threads == (1, 2)


@pytest.mark.parametrize("change", [
    {"kind": "descriptor"}, {"kind": "spin-lock"}, {"shared": True}, {"state": "free"}, {"kind": "gil"},
    {"kind": "stop-the-world"}, {"kind": "py-critical-section"},
], ids=["input", "it runs", "another process", "free", "GIL of nobody that is seen", "all have stopped",
        "just released"])
def test_somebody_else_may_step_in(change: dict[str, object]) -> None:
    other = replace(QUEUE, **change)  # type: ignore[arg-type]
    assert find_standstill(threads({1: "F", 2: "Q"}), [FUTURE, other], 1) is None


def test_a_thread_that_goes_on_by_itself() -> None:
    locks = [FUTURE, QUEUE]
    assert find_standstill(threads({1: "F", 2: "Q"}), locks, 1) is not None
    assert find_standstill(threads({1: "F", 2: "Q"}, timed=(2,)), locks, 1) is None
    assert find_standstill(threads({1: "F", 2: "Q"}, running=(3,)), locks, 1) is None
    assert find_standstill(threads({2: "Q"}), locks, 1) is None, "nothing is known of the first thread"
    assert find_standstill([], [], 1) is None
