from __future__ import annotations

from gdbext.locks.seen import RecordedTid, SeenLock, SeenWait
from gdbext.waits.recognisers import RECOGNISERS, _with_known_kinds, find_waits
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


def test_waiters_at_one_address_wait_for_one_lock() -> None:
    """One stack shows the ``BoundedSemaphore(1)``, another only the SemLock in it, which looks like a Lock."""
    lock, semaphore = SeenLock("py-lock", 0x10, "locked", held=RecordedTid(7)), SeenLock("py-semaphore", 0x10, "zero")
    other = SeenLock("py-lock", 0x20, "locked")
    waits = {1: SeenWait(lock=lock), 2: SeenWait(lock=semaphore), 3: SeenWait(lock=other), 4: SeenWait()}
    assert [wait.lock for wait in _with_known_kinds(waits).values()] == [semaphore, semaphore, other, None]
