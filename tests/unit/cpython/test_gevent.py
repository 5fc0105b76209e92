from __future__ import annotations

import pytest

from gdbext.cpython.gevent import GeventLocks, RLock, Semaphore
from gdbext.cpython.objects import Objects
from gdbext.errors import UnknownLayout
from tests.support.fake_gevent import ASYNC, BOUNDED, CALLBACK, EVENT, GREENLET, IO, SEMAPHORE, TIMER, FakeGevent


@pytest.fixture(params=["3.8.18", "3.11.7", "3.13.0", "3.14.10"])
def fake(request: pytest.FixtureRequest) -> FakeGevent:
    return FakeGevent(request.param)


def waits(fake: FakeGevent, greenlet: int) -> list[tuple[str, int, str | None]]:
    return [(waker.role, waker.address, waker.watches) for waker in fake.gevent().wakers.get(greenlet, ())]


def test_semaphore_wakes_the_greenlets_in_its_links(fake: FakeGevent) -> None:
    one, other = fake.suspended(("f", 1)), fake.suspended(("g", 2))
    semaphore = fake.linkable(SEMAPHORE, fake.switch(one))
    assert waits(fake, one) == [("linkable", semaphore, None)]
    assert waits(fake, other) == []


def test_waiter_stands_for_the_greenlet_that_waits_in_it(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    waiter = fake.waiter(one)
    io = fake.watcher(IO, fake.switch(waiter), waiter)
    timer = fake.watcher(TIMER, fake.switch(one))
    assert sorted(waits(fake, one)) == sorted([("watcher", timer, "timer"), ("watcher", io, "io")])


def test_greenlet_wakes_those_that_join_it(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    joined = fake.links(fake.greenlet(kind=fake.of(GREENLET)), fake.switch(one))
    assert waits(fake, one) == [("greenlet", joined, None)]


def test_queue_wakes_its_getters(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    queue = fake.queue(fake.deque(fake.waiter(one)), fake.deque())
    assert waits(fake, one) == [("queue", queue, None)]


def test_channel_has_waiters_in_tuples(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    queue = fake.queue(fake.deque(), fake.deque(fake.tuple_object(fake.integer(1), fake.waiter(one))))
    assert waits(fake, one) == [("queue", queue, None)]


def test_function_that_is_called_with_the_greenlet_may_wake_it(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    callback = fake.watcher(CALLBACK, fake.function("kill"), one)
    assert waits(fake, one) == [("callback", callback, None)]


def test_semaphore_of_another_hub_wakes_by_a_watcher(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    watcher = fake.watcher(ASYNC, fake.switch(one))
    semaphore = fake.linkable(BOUNDED, fake.builtin_method("send_ignoring_arg", watcher), initial=1)
    assert waits(fake, one) == [("watcher", watcher, "async_"), ("linkable", semaphore, None)]


def test_damaged_object_is_left_out(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    event = fake.linkable(EVENT, fake.switch(one))
    fake.memory.u64(fake.linkable(EVENT) + 48, 0x10)
    assert waits(fake, one) == [("linkable", event, None)]


def test_unknown_release_is_reported(fake: FakeGevent) -> None:
    fake.of("gevent._gevent_c_waiter.Waiter", 64)
    fake.waiter(fake.main)
    with pytest.raises(UnknownLayout):
        fake.gevent().wakers  # noqa: B018


def test_states_of_locks(fake: FakeGevent) -> None:
    bounded = fake.linkable(BOUNDED, counter=0, initial=1)
    notifying = fake.linkable(SEMAPHORE, counter=2, notifier=fake.integer(1))
    lock = fake.rlock(bounded, fake.main, 1)
    gevent = fake.gevent()
    assert gevent.semaphore(bounded) == Semaphore(0, 1, False)
    assert gevent.semaphore(notifying) == Semaphore(2, None, True)
    assert gevent.rlock(lock) == RLock(bounded, fake.main, 1)
    assert gevent.rlock_of == {bounded: lock}
    assert (gevent.semaphore(lock), gevent.rlock(bounded)) == (None, None)


def test_damaged_semaphore_is_none(fake: FakeGevent) -> None:
    negative = fake.linkable(SEMAPHORE, counter=(1 << 32) - 1)
    more = fake.linkable(BOUNDED, counter=2, initial=1)
    unlinked = fake.linkable(SEMAPHORE)
    fake.memory.u64(unlinked + 48, fake.integer(5))
    gevent = fake.gevent()
    assert [gevent.semaphore(each) for each in (negative, more, unlinked, 0x10)] == [None] * 4


def test_only_a_semaphore_of_one_is_a_lock(fake: FakeGevent) -> None:
    made = [fake.linkable(BOUNDED, initial=1), fake.linkable(BOUNDED, initial=2, counter=1), fake.linkable(SEMAPHORE)]
    made.append(fake.rlock(made[0], fake.main, 1))
    gevent = fake.gevent()
    locks = GeventLocks(fake.memory, fake.layouts, Objects(fake.memory, fake.layouts), gevent)
    found = [lock for each in made if (lock := locks.decode(each)) is not None]
    assert [(lock.kind, lock.locked) for lock in found] == [
        ("py-lock", True), ("py-semaphore", False), ("py-semaphore", True), ("py-rlock", True)]
    assert locks.decode(fake.integer(1)) is None
