from __future__ import annotations

from dataclasses import replace

from gdbext.narrate.graph import wait_for_graph
from gdbext.narrate.names import Facts
from tests.support.fake_page import pool
from tests.support.fake_report import COUNTED, RWLOCK, gil_deadlock, inferred_deadlock


def test_arrows_of_waiters_and_holders() -> None:
    found = wait_for_graph(Facts(gil_deadlock()))
    # locks in the order of the deadlock
    assert list(found.locks.items()) == [(RWLOCK, True), ("gil:0", True)]
    assert {tuple(members): [tuple(arrow) for arrow in arrows] for members, arrows in found.threads} == {
        (1,): [(RWLOCK, "waits to write", "waits", True), ("gil:0", "held by", "recorded", True)],
        (2,): [(RWLOCK, "held by", "recorded", True), ("gil:0", "waits", "waits", True)],
        (3,): [(RWLOCK, "waits to read", "waits", False)]}


def test_threads_with_the_same_arrows_form_one_box() -> None:
    assert [len(members) for members, _ in wait_for_graph(Facts(pool(500))).threads] == [1, 1, 501]
    # two threads are too few for a group
    assert [len(members) for members, _ in wait_for_graph(Facts(pool(1))).threads] == [1, 1, 1, 1]
    assert len(wait_for_graph(Facts(pool(500)), together=False).threads) == 503


def test_candidates_are_not_holders() -> None:
    report = inferred_deadlock()
    locks = tuple(replace(lock, holders=(), candidates=(1, 2)) if lock.id == COUNTED else lock for lock in report.locks)
    found = wait_for_graph(Facts(replace(report, locks=locks, deadlocks=())))
    assert [arrow.kind for _, arrows in found.threads for arrow in arrows
            if arrow.lock == COUNTED].count("candidate") == 2
    assert not any(found.locks.values())


def test_locks_without_waiters_are_shown_only_with_everything() -> None:
    assert COUNTED not in wait_for_graph(Facts(gil_deadlock())).locks
    assert COUNTED in wait_for_graph(Facts(gil_deadlock()), everything=True).locks
