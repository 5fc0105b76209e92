from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from gdbext.model import RECORDED, Greenlet, GreenletWait
from gdbext.narrate.reasons import explain
from gdbext.tasks.greenlet_waits import find_greenlet_waits
from gdbext.tasks.greenlets import find_greenlets
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import PythonSide
from gdbext.verdict.task_cycles import find_greenlet_cycles
from gdbext.waits.context import Context
from tests.support.fake_eventlet import FakeEventlet
from tests.support.fake_gevent import ASYNC, BOUNDED, CALLBACK, EVENT, GREENLET, IO, SEMAPHORE, TIMER, FakeGevent
from tests.support.fake_greenlets import MAIN_STOP


@dataclass
class _NoLocks:
    """The Python locks of threads without Python frames."""

    def stacks(self, _number: int) -> list[Any]:
        return []


@dataclass
class _Context:
    python: PythonSide
    memory: Any
    findings: Findings
    threads: list[Any] = field(default_factory=list)
    python_locks: _NoLocks = field(default_factory=_NoLocks)


def judge(fake: FakeGevent) -> tuple[tuple[Greenlet, ...], Findings]:
    findings = Findings()
    side = fake.side(findings)
    context = cast("Context", _Context(side, fake.memory, findings))
    return find_greenlet_waits(context, find_greenlets(side, findings)), findings


def waits_of(fake: FakeGevent, greenlet: int) -> GreenletWait | None:
    return next(each.waits for each in judge(fake)[0] if each.address == greenlet)


@pytest.fixture
def fake() -> FakeGevent:
    return FakeGevent("3.13.0")


# -- waits -----------------------------------------------------------------------------------------------------------


def test_owner_of_a_recursive_lock_is_recorded(fake: FakeGevent) -> None:
    one, other = fake.suspended(("f", 1)), fake.suspended(("g", 2))
    block = fake.linkable(SEMAPHORE, fake.switch(one))
    lock = fake.rlock(block, other, 1)
    assert waits_of(fake, one) == GreenletWait(
        "gevent.lock.RLock", lock, locked=True, holders=(other,), evidence=RECORDED)


def test_two_recursive_locks_in_opposite_order(fake: FakeGevent) -> None:
    one, other = fake.suspended(("f", 1)), fake.suspended(("g", 2))
    fake.rlock(fake.linkable(SEMAPHORE, fake.switch(one)), other, 1)
    fake.rlock(fake.linkable(SEMAPHORE, fake.switch(other)), one, 2)
    assert find_greenlet_cycles(judge(fake)[0]) == ((min(one, other), max(one, other)),)


def test_lock_that_is_free_or_about_to_wake_greenlets_is_not_locked(fake: FakeGevent) -> None:
    one, other = fake.suspended(("f", 1)), fake.suspended(("g", 2))
    fake.linkable(BOUNDED, fake.switch(one), counter=1, initial=1)
    fake.linkable(BOUNDED, fake.switch(other), notifier=fake.integer(1), initial=1)
    found = [each.waits for each in judge(fake)[0] if each.waits is not None]
    assert [(waits.locked, waits.others, waits.holders) for waits in found] == [(False, 1, ())] * 2


def test_recursive_lock_without_owner_has_no_holder(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    fake.rlock(fake.linkable(SEMAPHORE, fake.switch(one)), 0, 0)
    waits = waits_of(fake, one)
    assert waits is not None
    assert (waits.locked, waits.holders) == (False, ())


def test_semaphore_has_no_holder_without_proof(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    lock = fake.linkable(BOUNDED, fake.switch(one), initial=1)
    assert waits_of(fake, one) == GreenletWait("gevent.lock.BoundedSemaphore", lock, locked=True)


def test_timer_beside_a_lock_is_a_timeout(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    fake.rlock(fake.linkable(SEMAPHORE, fake.switch(one)), one, 1)
    fake.watcher(TIMER, fake.builtin_method("throw", one))
    greenlets, _ = judge(fake)
    assert find_greenlet_cycles(greenlets) == ()
    assert [each.waits.timed for each in greenlets if each.waits is not None] == [True]


def test_other_watcher_beside_a_lock_may_end_the_wait(fake: FakeGevent) -> None:
    one = fake.suspended(("f", 1))
    fake.rlock(fake.linkable(SEMAPHORE, fake.switch(one)), one, 1)
    fake.watcher(IO, fake.builtin_method("kill", one))
    assert find_greenlet_cycles(judge(fake)[0]) == ()


def test_lock_of_another_hub_is_what_the_greenlet_waits_for(fake: FakeGevent) -> None:
    one, other = fake.suspended(("f", 1)), fake.suspended(("g", 2))
    watcher = fake.watcher(ASYNC, fake.switch(one))
    lock = fake.rlock(fake.linkable(SEMAPHORE, fake.builtin_method("send", watcher)), other, 1)
    waits = waits_of(fake, one)
    assert waits is not None
    assert (waits.address, waits.holders, waits.others) == (lock, (other,), 0)


def test_what_the_loop_watches(fake: FakeGevent) -> None:
    sleeping, reading, called = (fake.suspended((name, 1)) for name in "abc")
    fake.watcher(TIMER, fake.switch(fake.waiter(sleeping)))
    fake.watcher(IO, fake.switch(fake.waiter(reading)))
    fake.watcher(CALLBACK, fake.switch(called))
    waits = {each.address: each.waits for each in judge(fake)[0]}
    assert waits[sleeping] == GreenletWait("timer", timed=True)
    assert waits[reading] == GreenletWait("io", others=1)
    assert waits[called] == GreenletWait("ready", others=1)


def test_end_of_a_greenlet_and_an_event(fake: FakeGevent) -> None:
    one, both = fake.suspended(("f", 1)), fake.suspended(("g", 1))
    joined = fake.links(fake.greenlet(kind=fake.of(GREENLET)), fake.switch(fake.waiter(one)), fake.switch(both))
    event = fake.linkable(EVENT, fake.switch(both))
    waits = {each.address: each.waits for each in judge(fake)[0]}
    assert waits[one] == GreenletWait(greenlets=(joined,))
    assert waits[both] == GreenletWait("gevent.wait", greenlets=(joined,), others=1)
    fake.links(joined)
    assert waits_of(fake, both) == GreenletWait("gevent.event.Event", event, others=1)


def test_release_that_is_not_decoded_is_reported(fake: FakeGevent) -> None:
    fake.suspended(("f", 1))
    fake.of("gevent._gevent_c_waiter.Waiter", 64)
    fake.waiter(fake.main)
    greenlets, findings = judge(fake)
    assert [each.waits for each in greenlets] == [None] * 2
    assert [(problem.where, problem.what) for problem in findings.problems] == [
        ("gevent or eventlet in interpreter 0", "not applicable")]


@pytest.mark.parametrize(("count", "words"), [
    (0, []), (1, ["it is not known what 1 suspended greenlet waits for"]),
    (2, ["it is not known what 2 suspended greenlets wait for"])])
def test_note_counts_greenlets_whose_waits_are_not_known(fake: FakeGevent, count: int, words: list[str]) -> None:
    for _ in range(count):
        fake.suspended(("leave", 5))
    # this one cannot be resumed, whatever it waits for
    fake.suspended(("leave", 5), main=fake.greenlet(stop=MAIN_STOP, start=1, thread_state=0))
    notes = [explain(note) for note in judge(fake)[1].notes]
    assert [note.partition(",")[0] for note in notes] == words


def test_greenlet_of_a_hub_waits_for_nothing() -> None:
    fake = FakeEventlet("3.13.0")
    fake.hub(runs=fake.suspended(("run", 5)))
    greenlets, findings = judge(fake)
    assert [each.kind for each in greenlets if not each.is_main] == ["eventlet.hubs.epolls.Hub"]
    assert findings.notes == []


def test_timeout_of_eventlet_ends_a_wait_for_a_lock() -> None:
    fake = FakeEventlet("3.13.0")
    one = fake.suspended(("f", 1))
    lock = fake.semaphore("Lock", one)
    assert waits_of(fake, one) == GreenletWait("threading.Lock", lock, locked=True)
    fake.hub(fake.timer(fake.builtin_method("throw", one)))
    assert waits_of(fake, one) == GreenletWait("threading.Lock", lock, locked=True, timed=True)
