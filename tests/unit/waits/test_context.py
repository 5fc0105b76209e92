from __future__ import annotations

from tests.support.contexts import context_of
from tests.support.fake_target import FakeTarget


def test_context_counts_the_threads_that_sleep_on_each_word() -> None:
    target = FakeTarget()
    mutex = target.mutex(target.thread().ref.lwp)
    for _ in range(2):
        target.waits_for_mutex(target.thread(), mutex)
    context = context_of(target)
    assert context.words is not None
    assert list(context.words.sleepers.values()) == [2]
    assert context.memory is target.memory
