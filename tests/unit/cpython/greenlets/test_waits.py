from __future__ import annotations

import pytest

from gdbext.cpython.greenlets.waits import GreenLocks, RLock, Semaphore
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, UnknownLayout
from tests.support import versions
from tests.support.fake_eventlet import FakeEventlet
from tests.support.fake_gevent import ASYNC, BOUNDED, CALLBACK, EVENT, GREENLET, IO, SEMAPHORE, TIMER, FakeGevent


@pytest.fixture(params=versions.from_minor(8))
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
    locks = GreenLocks(fake.memory, fake.layouts, Objects(fake.memory, fake.layouts), gevent)
    found = [lock for each in made if (lock := locks.decode(each)) is not None]
    assert [(lock.kind, lock.locked) for lock in found] == [
        ("py-lock", True), ("py-semaphore", False), ("py-semaphore", True), ("py-rlock", True)]
    assert locks.decode(fake.integer(1)) is None


# -- eventlet --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=versions.from_minor(8))
def eventlet(request: pytest.FixtureRequest) -> FakeEventlet:
    return FakeEventlet(request.param)


def test_semaphore_and_event_of_eventlet_wake_the_greenlets_in_them(eventlet: FakeEventlet) -> None:
    one, other = eventlet.suspended(("f", 1)), eventlet.suspended(("g", 2))
    lock, event = eventlet.semaphore("Lock", one), eventlet.event(other)
    assert waits(eventlet, one) == [("linkable", lock, None)]
    assert waits(eventlet, other) == [("linkable", event, None)]


def test_event_of_a_greenlet_is_its_end(eventlet: FakeEventlet) -> None:
    one = eventlet.suspended(("f", 1))
    eventlet.class_of("GreenThread")
    joined = eventlet.greenlet(kind=eventlet.type_object("GreenThread"))
    eventlet.build.put("PyTypeObject", eventlet.type_object("GreenThread"), tp_flags=1 << 9, tp_dictoffset=24)
    eventlet.memory.u64(joined + 24, eventlet.namespace(_exit_event=eventlet.event(one)))
    assert waits(eventlet, one) == [("greenlet", joined, None)]


def test_queue_of_eventlet_wakes_its_getters_and_those_that_join_it(eventlet: FakeEventlet) -> None:
    one, other = eventlet.suspended(("f", 1)), eventlet.suspended(("g", 2))
    waiter = eventlet.of_class("Waiter", greenlet=one)
    queue = eventlet.of_class("Queue", getters=eventlet.set_object(waiter), putters=eventlet.set_object(),
                              _cond=eventlet.event(other))
    assert waits(eventlet, one) == waits(eventlet, other) == [("queue", queue, None)]


def test_hub_has_timers_and_descriptors(eventlet: FakeEventlet) -> None:
    sleeps, reads, ready, closed = (eventlet.suspended((name, 1)) for name in "abcd")
    sleep = eventlet.timer(eventlet.switch(sleeps))
    resume = eventlet.timer(eventlet.switch(ready), seconds=0)
    cancelled = eventlet.timer(eventlet.switch(reads), called=True)
    read = eventlet.listener(eventlet.switch(reads), eventlet.builtin_method("throw", reads))
    spent = eventlet.listener(eventlet.function("closed_callback"), eventlet.builtin_method("throw", closed), True)
    eventlet.hub(sleep, cancelled, new=[resume], listeners=[read], closed=[spent])
    assert waits(eventlet, sleeps) == [("watcher", sleep, "timer")]
    assert waits(eventlet, reads) == [("watcher", read, "io")]
    assert waits(eventlet, ready)[0] == ("callback", resume, None)
    assert waits(eventlet, closed) == [("callback", spent, None)]


def test_event_sends_its_value_by_a_call_of_the_hub(eventlet: FakeEventlet) -> None:
    one, other = eventlet.suspended(("f", 1)), eventlet.suspended(("g", 1))
    event = eventlet.event()
    send = eventlet.timer(eventlet.builtin_method("_do_send", event), one, seconds=0)
    spawn = eventlet.timer(eventlet.switch(eventlet.greenlet(stop=0, start=0)), other, seconds=0)
    eventlet.hub(send, spawn)
    assert waits(eventlet, one)[0] == ("callback", send, None)
    # a function that is called with it is not what it waits for, but may kill it
    assert waits(eventlet, other) == [("watcher", spawn, "timer")]


def test_function_of_a_timer_wakes_the_greenlet_in_its_free_variables(eventlet: FakeEventlet) -> None:
    one = eventlet.suspended(("f", 1))
    timeout = eventlet.timer(eventlet.closure(one))
    later = eventlet.timer(eventlet.function("main"), eventlet.tuple_object(eventlet.builtin_method("kill", one)))
    second = eventlet.listener(eventlet.closure(one), eventlet.function("throw"))
    eventlet.hub(timeout, later, second=[second])
    assert waits(eventlet, one) == [("watcher", timeout, "timer"), ("watcher", later, "timer"),
                                    ("watcher", second, "io")]


def test_lock_that_the_hub_will_call_a_method_of(eventlet: FakeEventlet) -> None:
    lock, other = eventlet.semaphore("Lock"), eventlet.semaphore("Lock")
    eventlet.hub(eventlet.timer(eventlet.builtin_method("release", lock)))
    green = eventlet.gevent()
    assert [green.is_scheduled_with(each) for each in (lock, other)] == [True, False]


def test_hub_names_its_greenlet(eventlet: FakeEventlet) -> None:
    eventlet.hub(runs=eventlet.main)
    reader = eventlet.reader()
    assert [reader.type_name(each) for each in reader.greenlets] == ["eventlet.hubs.epolls.Hub"]


def test_hub_of_another_library_is_reported(eventlet: FakeEventlet) -> None:
    eventlet.hub(kind="QtHub")
    with pytest.raises(UnknownLayout, match=r"app\.QtHub is not decoded"):
        eventlet.gevent().wakers  # noqa: B018


def test_damaged_hub_is_reported(eventlet: FakeEventlet) -> None:
    eventlet.event(eventlet.suspended(("f", 1)))
    eventlet.of_class("Hub", timers=eventlet.integer(1))
    with pytest.raises(CorruptStructure):
        eventlet.gevent().wakers  # noqa: B018


def test_states_of_the_locks_of_eventlet(eventlet: FakeEventlet) -> None:
    lock, plain = eventlet.semaphore("Lock"), eventlet.semaphore("Semaphore", counter=2)
    one, more = eventlet.semaphore("BoundedSemaphore"), eventlet.semaphore("BoundedSemaphore", initial=3, counter=1)
    damaged = [eventlet.semaphore("BoundedSemaphore", counter=2), eventlet.semaphore("Semaphore", counter=-1),
               eventlet.of_class("Lock", counter=eventlet.integer(0))]
    green = eventlet.gevent()
    assert [green.semaphore(each) for each in (lock, plain, one, more)] == [
        Semaphore(0, 1, False), Semaphore(2, None, False), Semaphore(0, 1, False), Semaphore(1, 3, False)]
    assert [green.semaphore(each) for each in damaged] == [None] * 3
    locks = GreenLocks(eventlet.memory, eventlet.layouts, Objects(eventlet.memory, eventlet.layouts), green)
    found = [state for each in (lock, plain, one) if (state := locks.decode(each)) is not None]
    assert [(state.kind, state.type_name, state.locked) for state in found] == [
        ("py-lock", "threading.Lock", True), ("py-semaphore", "eventlet.semaphore.Semaphore", False),
        ("py-lock", "eventlet.semaphore.BoundedSemaphore", True)]
