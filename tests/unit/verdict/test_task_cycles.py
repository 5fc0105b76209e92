from __future__ import annotations

import pytest

from gdbext.model import Awaited, Greenlet, GreenletWait, Task, TaskStatus
from gdbext.verdict.task_cycles import find_greenlet_cycles, find_task_cycles

# -- tasks ------------------------------------------------------------------------------------------------------

def waits(address: int, *others: int, state: TaskStatus = "pending", **more: object) -> Task:
    """A task that waits for the end of other tasks."""
    awaits = Awaited(others, **more)  # type: ignore[arg-type]
    return Task(address, None, 0, None, state, (), awaits)


def held(address: int, *holders: int) -> Task:
    """A task that waits for a lock."""
    return Task(address, None, 0, None, "pending", (), Awaited((), 0, "asyncio.Lock", 1, None, holders))


def test_tasks_in_a_circle() -> None:
    assert find_task_cycles([waits(3, 1), waits(1, 2), waits(2, 3)]) == ((1, 2, 3),)


def test_a_task_that_waits_for_itself() -> None:
    assert find_task_cycles([held(5, 5)]) == ((5,),)


def test_locks_make_circles_too() -> None:
    assert find_task_cycles([held(1, 2), waits(2, 1)]) == ((1, 2),)


def test_who_is_behind_a_circle_is_not_in_it() -> None:
    assert find_task_cycles([waits(9, 1), waits(1, 2), waits(2, 1), waits(8, 9)]) == ((1, 2),)


def test_two_circles() -> None:
    assert find_task_cycles([waits(1, 2), waits(2, 1), waits(3, 4), waits(4, 3)]) == ((1, 2), (3, 4))


def test_no_circle() -> None:
    assert find_task_cycles([waits(1, 2), waits(2, 3), waits(3)]) == ()
    assert find_task_cycles([waits(1, 7)]) == (), "7 is not known"
    assert find_task_cycles([]) == ()


def test_a_wait_that_ends_by_itself_makes_no_circle() -> None:
    assert find_task_cycles([waits(1, 2, timed=True), waits(2, 1)]) == ()


def test_a_wait_for_several_ends_when_one_of_them_does() -> None:
    assert find_task_cycles([waits(1, 2, 3), waits(2, 1), waits(3)]) == (), "3 may fail, and so end the wait of 1"
    assert find_task_cycles([waits(1, 2, others=1), waits(2, 1)]) == (), "another future may"
    assert find_task_cycles([waits(1, 2, 3), waits(2, 1), waits(3, 1)]) == ((1, 2),)


def test_a_task_that_is_finished_makes_no_circle() -> None:
    assert find_task_cycles([waits(1, 2), waits(2, 1, state="done")]) == ()
    assert find_task_cycles([waits(1, 2), waits(2, 1, state="running")]) == ()


@pytest.mark.slow
def test_a_circle_of_very_many() -> None:
    count = 100_000
    circle, = find_task_cycles([waits(i, (i + 1) % count) for i in range(count)])
    assert circle == tuple(range(count))


# -- greenlets ------------------------------------------------------------------------------------------------------

def of(address: int, waits: GreenletWait | None) -> Greenlet:
    return Greenlet(address, "Greenlet", 1, "suspended", waits=waits)


def test_greenlets_that_wait_for_locks_and_ends_of_one_another_are_a_cycle() -> None:
    found = find_greenlet_cycles([of(1, GreenletWait(holders=(2,), locked=True)), of(2, GreenletWait(greenlets=(3,))),
                         of(3, GreenletWait(greenlets=(1,))), of(4, GreenletWait(holders=(1,)))])
    assert found == ((1, 2, 3),)


@pytest.mark.parametrize("waits", [
    GreenletWait(holders=(1,), timed=True), GreenletWait(holders=(1,), others=1), GreenletWait("ready", others=1),
    GreenletWait(greenlets=(1, 3)), None])
def test_greenlet_that_may_continue_breaks_the_cycle(waits: GreenletWait | None) -> None:
    assert find_greenlet_cycles([of(1, GreenletWait(holders=(2,))), of(2, waits), of(3, None)]) == ()


def test_greenlet_that_waits_for_itself() -> None:
    assert find_greenlet_cycles([of(1, GreenletWait(holders=(1,)))]) == ((1,),)
