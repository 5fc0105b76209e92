"""The wait-for graph of several processes, drawn by hand."""

from __future__ import annotations

from gdbext.model import Evidence
from gdbext.model.reasons import because
from gdbext.processes.graph import Node, Wait, find_deadlocks

READ = because("reads-descriptor", link="pipe:[1]", fd=3)
A, B, C, D = Node(1, 1), Node(2, 1), Node(3, 1), Node(1, 2)


def on(*holders: Node, all_of: bool = False, idle: bool = False, evidence: Evidence = "recorded") -> Wait:
    return Wait("pipe", READ, frozenset(holders), all_of, evidence, (), idle)


def test_two_threads_that_wait_for_each_other_deadlock() -> None:
    (found,) = find_deadlocks({A: on(B), B: on(A)})
    assert found.members == (A, B)
    assert found.processes == (1, 2)
    assert (found.evidence, found.why, found.behind) == ("recorded", (), ())


def test_wait_for_any_ends_if_one_holder_can_run() -> None:
    assert find_deadlocks({A: on(B, C), B: on(A)}) == []
    (found,) = find_deadlocks({A: on(B, C), B: on(A), C: on(A)})
    assert found.members == (A, B, C)


def test_wait_for_all_is_stuck_if_one_holder_is() -> None:
    (found,) = find_deadlocks({A: on(B, C, all_of=True), B: on(A)})
    assert found.members == (A, B)


def test_thread_that_waits_for_a_deadlock_is_behind_it() -> None:
    (found,) = find_deadlocks({A: on(B), B: on(A), C: on(A)})
    assert found.members == (A, B)
    assert found.behind == (C,)


def test_deadlock_inside_a_process_is_not_between_processes() -> None:
    waits = {A: on(D), D: on(A), B: on(A)}
    assert find_deadlocks(waits, {A, D}) == []


def test_idle_threads_are_members_but_not_evidence() -> None:
    waits = {A: on(B), D: on(A, idle=True, evidence="inferred"), B: on(A, D)}
    (found,) = find_deadlocks(waits)
    assert found.members == (A, D, B)
    assert found.evidence == "recorded"


def test_deadlock_has_the_weakest_evidence() -> None:
    why = because("text", text="x")
    inferred = Wait("socket", READ, frozenset({A}), False, "inferred", (why,))
    (found,) = find_deadlocks({A: on(B, evidence="derived"), B: inferred})
    assert found.evidence == "inferred"
    assert found.why == (why, because("no-thread-can-run"))


def test_long_cycle_and_two_cycles_are_found() -> None:
    ring = {Node(pid, 1): on(Node(pid % 500 + 1, 1)) for pid in range(1, 501)}
    (found,) = find_deadlocks(ring)
    assert len(found.members) == 500
    assert len(find_deadlocks({A: on(B), B: on(A), C: on(Node(4, 1)), Node(4, 1): on(C)})) == 2


def test_message_is_lost_if_none_is_on_the_way() -> None:
    empty, full = (Wait("socket", READ, frozenset({B}), empty=empty) for empty in (True, False))
    back = Wait("socket", READ, frozenset({A}), empty=True)
    assert [each.lost for each in find_deadlocks({A: empty, B: back})] == [True]
    assert [each.lost for each in find_deadlocks({A: full, B: back})] == [False]
