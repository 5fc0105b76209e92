from __future__ import annotations

from gdbext.waits.recognisers import RECOGNISERS, find_waits
from tests.support.contexts import context_of
from tests.support.fake_target import READ, FakeTarget


def test_a_recogniser_that_knows_a_wait_is_the_only_one_or_the_first() -> None:
    assert [recognise.__name__ for recognise in RECOGNISERS] == [
        "gil_wait", "python_lock_wait", "parked_wait", "outside_wait", "futex_wait", "spinning_wait", "blocked_wait"]


def test_each_thread_that_waits_has_a_wait() -> None:
    target = FakeTarget()
    holder, waiter, reader = target.thread(), target.thread(), target.thread()
    mutex = target.mutex(holder.ref.lwp)
    target.waits_for_mutex(waiter, mutex)
    target.blocked(reader, READ, 7)
    waits = find_waits(context_of(target))
    assert {number: wait.lock.id for number, wait in waits.items() if wait.lock is not None} == {
        waiter.ref.number: f"mutex:{mutex:#x}", reader.ref.number: "descriptor:0x7"}
