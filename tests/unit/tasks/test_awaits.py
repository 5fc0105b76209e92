from __future__ import annotations

import pytest

import gdbext.tasks.awaits
from gdbext.model import Awaited, EventLoop
from gdbext.narrate.reasons import explain
from tests.support.asyncio_tasks import NAMED, awaiting, derived, library, look, one
from tests.support.fake_tasks import LIBRARY, FakeTasks


@pytest.fixture(params=NAMED)
def fake(request: pytest.FixtureRequest) -> FakeTasks:
    return FakeTasks(request.param)


def test_a_task(fake: FakeTasks) -> None:
    shared = fake.task("shared", fake.coroutine("doze"))
    at = awaiting(fake, "Task-10", shared)
    awaiting(fake, "Task-9", shared)
    fake.publish()
    found, problems = look(fake)
    assert problems == []
    assert [task.name for task in found.tasks] == ["Task-9", "Task-10", "shared"], "numbers in their order"
    assert found.tasks[1].awaits == Awaited((shared,))
    assert found.tasks[2].awaits == Awaited()
    assert set(found.tasks[2].awaited_by) == {at, found.tasks[0].address}
    assert [(frame.function, frame.file) for frame in found.tasks[1].stack] == [("work", "/app/job.py")]
    assert {(task.state, task.loop, task.thread) for task in found.tasks} == {("pending", fake.loop, 1)}
    assert found.loops == (EventLoop(fake.loop, "_UnixSelectorEventLoop", 1),)


def test_a_future_that_nobody_knows(fake: FakeTasks) -> None:
    future = fake.future()
    awaiting(fake, "t", future, it=future)
    fake.publish()
    assert one(fake, "t").awaits == Awaited((), 1, "Future", future, "it")


def test_a_name_from_an_attribute(fake: FakeTasks) -> None:
    future = fake.future()
    awaiting(fake, "t", future, self=fake.instance("Job", inline=False, done=future))
    fake.publish()
    assert one(fake, "t").awaits.name == "self.done"


def test_gather(fake: FakeTasks) -> None:
    a, b = (fake.task(name, fake.coroutine("doze")) for name in "ab")
    over = fake.task("over", fake.coroutine("doze"), state=2)
    nested = fake.gathering([b, fake.future(), fake.future(state=2)])
    awaiting(fake, "t", fake.gathering([a, nested, over, a]))
    fake.publish()
    assert one(fake, "t").awaits == Awaited((a, b), 1, "asyncio.gather")


def test_shield(fake: FakeTasks) -> None:
    outer = fake.future()
    callback = fake.callback(f"{LIBRARY}/tasks.py", inner=fake.none, outer=outer)
    inner = fake.task("inner", fake.coroutine("doze"), callbacks=[fake.none, callback])
    awaiting(fake, "t", outer)
    fake.publish()
    assert one(fake, "t").awaits == Awaited((inner,), 0, "asyncio.shield")


def test_a_callback_of_the_programs_own_is_no_shield(fake: FakeTasks) -> None:
    outer = fake.future()
    callback = fake.callback("/app/tasks.py", outer=outer)
    fake.task("inner", fake.coroutine("doze"), callbacks=[callback])
    awaiting(fake, "t", outer)
    fake.publish()
    assert one(fake, "t").awaits == Awaited((), 1, "Future", outer)


def test_a_future_of_a_thread(fake: FakeTasks) -> None:
    source = fake.instance("Future", inline=False, _condition=fake.none)
    future = fake.future([fake.callback(f"{LIBRARY}/futures.py", dest_loop=fake.none, source=source)])
    awaiting(fake, "t", future)
    fake.publish()
    assert one(fake, "t").awaits == Awaited((), 1, "concurrent.futures.Future", source)


@pytest.mark.parametrize("name", ["Lock", "Event", "Condition", "Semaphore", "BoundedSemaphore", "Queue", "LifoQueue"])
def test_objects_of_asyncio(fake: FakeTasks, name: str) -> None:
    thing = fake.instance(name)
    library(fake, "t", fake.future(), "locks", "wait", {"thing": thing}, self=thing)
    fake.publish()
    assert one(fake, "t").awaits == Awaited((), 0, f"asyncio.{name}", thing, "thing")


def test_a_class_that_is_derived_from_one_of_asyncio(fake: FakeTasks) -> None:
    thing = derived(fake, "MyQueue", "PriorityQueue", "Queue")
    library(fake, "t", fake.future(), "queues", "get", self=thing)
    fake.publish()
    assert one(fake, "t").awaits == Awaited((), 0, "asyncio.PriorityQueue", thing)


def test_the_same_class_in_the_programs_own_file(fake: FakeTasks) -> None:
    future = fake.future()
    awaiting(fake, "t", future, "/app/locks.py", "wait", self=fake.instance("Lock"))
    fake.publish()
    assert one(fake, "t").awaits.kind == "Future"


def test_what_asyncio_waits_for_within(fake: FakeTasks) -> None:
    """A queue that is joined waits for an event; a condition takes its lock again."""
    queue, event, lock, condition = (fake.instance(name) for name in ("Queue", "Event", "Lock", "Condition"))
    iterator = fake.object_of("_asyncio.FutureIter")
    for name, outer, inner in (("q", queue, event), ("c", condition, lock)):
        within = fake.coroutine("wait", iterator, file=f"{LIBRARY}/locks.py", variables={"self": inner})
        around = fake.coroutine("join", within, file=f"{LIBRARY}/queues.py", variables={"self": outer})
        fake.task(name, fake.coroutine("work", around), waiter=fake.future())
    fake.publish()
    assert one(fake, "q").awaits.address == queue
    assert one(fake, "c").awaits.address == lock


def test_sleep(fake: FakeTasks) -> None:
    library(fake, "t", fake.future(), "tasks", "sleep", delay=fake.none)
    fake.publish()
    assert one(fake, "t").awaits == Awaited((), 0, "asyncio.sleep")


@pytest.mark.parametrize("timed", [True, False])
def test_wait_for(fake: FakeTasks, timed: bool) -> None:
    """Up to 3.11 it waits for a future of its own when there is a timeout."""
    inner = fake.task("inner", fake.coroutine("doze"))
    library(fake, "t", fake.future() if timed else inner, "tasks", "wait_for", fut=inner)
    fake.publish()
    assert one(fake, "t").awaits == Awaited((inner,), 0, "asyncio.wait_for", timed=timed)


def test_wait_and_task_group(fake: FakeTasks) -> None:
    a, b = (fake.task(name, fake.coroutine("doze")) for name in "ab")
    over = fake.task("over", fake.coroutine("doze"), state=1)
    library(fake, "waits", fake.future(), "tasks", "_wait", fs=fake.set_of([a, b, over]))
    group = fake.instance("TaskGroup", _tasks=fake.set_of([a, b]))
    library(fake, "group", fake.future(), "taskgroups", "_aexit", self=group)
    fake.publish()
    assert one(fake, "waits").awaits == Awaited((a, b), 0, "asyncio.wait")
    assert one(fake, "group").awaits == Awaited((a, b), 0, "asyncio.TaskGroup")


def test_all_that_is_looked_at_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gdbext.tasks.awaits, "_MAX_READ", 60)
    fake = FakeTasks("3.11.7")
    shared = fake.coroutine("end")
    for _ in range(20):
        shared = fake.coroutine("more", shared)
    for i in range(10):
        fake.task(f"t{i}", shared)
    fake.publish()
    _, problems = look(fake)
    assert len(problems) == 8
    assert "more than 60 coroutines and futures" in explain(problems[0].why)
