"""Which samples count as still."""

from __future__ import annotations

import os
import time

from gdbext.launcher.watching.activity import Sample, Stillness, is_still, read_sample

SECOND = 1_000_000_000


def test_threads_that_use_no_time_are_still() -> None:
    assert is_still({(1, 1): 5, (1, 2): 7}, {(1, 1): 5, (1, 2): 7}, 10)


def test_thread_that_wakes_for_the_gil_is_still() -> None:
    assert is_still({(1, 1): 0}, {(1, 1): SECOND // 20}, 10)


def test_thread_that_works_moves() -> None:
    assert not is_still({(1, 1): 0, (1, 2): 0}, {(1, 1): 0, (1, 2): SECOND}, 10)


def test_thread_that_begins_or_ends_moves() -> None:
    assert not is_still({(1, 1): 0}, {(1, 1): 0, (1, 2): 0}, 10)
    assert not is_still({(1, 1): 0, (1, 2): 0}, {(1, 1): 0}, 10)


def test_one_thread_may_burn_if_nothing_else_moves() -> None:
    before = {(1, 1): 0, (1, 2): 0, (1, 3): 0}
    assert is_still(before, {(1, 1): 0, (1, 2): 9 * SECOND, (1, 3): 0}, 10, may_burn=True)
    assert not is_still(before, {(1, 1): 0, (1, 2): 9 * SECOND, (1, 3): 0}, 10)
    assert not is_still(before, {(1, 1): SECOND, (1, 2): 9 * SECOND, (1, 3): 0}, 10, may_burn=True)
    assert not is_still(before, {(1, 1): 0, (1, 2): SECOND, (1, 3): 0}, 10, may_burn=True)


def test_stillness_begins_again_with_each_move() -> None:
    times = [0, 0, SECOND, SECOND, SECOND]

    def read() -> Sample:
        return {(1, 1): times.pop(0)}

    stillness = Stillness(read, 100.0)
    assert [stillness.update(at) for at in (101.0, 102.0, 103.0, 105.0)] == [1.0, 0.0, 1.0, 3.0]


def test_times_of_this_process_grow() -> None:
    own = os.getpid()
    before = read_sample([own])
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    # the kernel adds what a running thread has used at each of its ticks
    assert read_sample([own])[own, own] >= before[own, own] + 20_000_000
