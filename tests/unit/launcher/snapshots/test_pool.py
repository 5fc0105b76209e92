"""Many snapshots at a time: order, failures and interruption."""

from __future__ import annotations

import threading

import pytest

from gdbext.launcher.snapshots.pool import run_all


def test_done_is_called_once_for_each_thing_in_the_calling_thread() -> None:
    done: dict[int, int] = {}
    where = set()

    def note(thing: int, result: int) -> None:
        where.add(threading.get_ident())
        done[thing] = result

    def double(thing: int) -> int:
        return thing * 2

    run_all(range(50), 3, double, note)
    assert done == {number: number * 2 for number in range(50)}
    assert where == {threading.get_ident()}


def test_pool_runs_at_most_that_many_jobs() -> None:
    inside, most = 0, 0
    lock, both = threading.Lock(), threading.Barrier(2)

    def work(thing: int) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        both.wait(10)  # two are at work, or else this breaks
        with lock:
            inside -= 1

    run_all(range(8), 2, work, lambda thing, result: None)
    assert most == 2


def test_empty_run_calls_nothing() -> None:
    run_all([], 4, lambda thing: thing, lambda thing, result: pytest.fail("called"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_exception_in_done_ends_running_work(error: type[BaseException]) -> None:
    ended = threading.Event()
    begun: list[int] = []
    running = threading.Event()

    def work(thing: int) -> int:
        begun.append(thing)
        if thing:
            running.set()
            assert ended.wait(10)
        else:
            assert running.wait(10)
        return thing

    def stop(thing: int, result: int) -> None:
        raise error

    before = threading.active_count()
    with pytest.raises(error):
        run_all(range(100), 2, work, stop, end=ended.set)
    assert ended.is_set()
    assert len(begun) <= 4
    assert threading.active_count() == before


def test_exception_in_work_is_raised() -> None:
    def work(thing: int) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_all(range(5), 2, work, lambda thing, result: None, end=lambda: None)


# -- what was done -------------------------------------------------------------------------------------------
