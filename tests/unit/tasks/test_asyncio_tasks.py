from __future__ import annotations

import random

import pytest

from gdbext.model import Awaited, EventLoop, Problem
from gdbext.model.reasons import because
from gdbext.tasks.asyncio_tasks import AsyncioTasks
from tests.support import combinations
from tests.support.asyncio_tasks import NAMED, awaiting, library, look, one
from tests.support.fake_memory import FakeMemory
from tests.support.fake_tasks import LIBRARY, FakeTasks


@pytest.fixture(params=NAMED)
def fake(request: pytest.FixtureRequest) -> FakeTasks:
    return FakeTasks(request.param)


# -- which tasks ----------------------------------------------------------------------------------------------------

def test_a_task_that_runs(fake: FakeTasks) -> None:
    at = fake.task("busy", fake.coroutine("work"))
    fake.stack(fake.tstate, [])
    fake.publish(current=at)
    assert one(fake, "busy").state == "running"
    assert one(fake, "busy").awaits == Awaited()


def test_a_task_that_runs_beneath_the_current_one(fake: FakeTasks) -> None:
    coroutine = fake.coroutine("work")
    fake.execute(coroutine)
    fake.task("outer", coroutine)
    fake.stack(fake.tstate, [])
    fake.publish()
    assert one(fake, "outer").state == "running"


def test_finished_tasks_are_left_out_unless_one_still_waits_for_them(fake: FakeTasks) -> None:
    fake.task("over", fake.coroutine("doze"), state=2)
    cancelled = fake.task("cancelled", fake.coroutine("doze"), state=1, scheduled=False)
    awaiting(fake, "t", cancelled)
    fake.publish()
    found, _ = look(fake)
    assert [(task.name, task.state) for task in found.tasks] == [("cancelled", "cancelled"), ("t", "pending")]


def test_a_loop_in_no_thread_that_the_debugger_has(fake: FakeTasks) -> None:
    fake.task("t", fake.coroutine("work"))
    fake.publish()
    found, _ = look(fake, None)
    assert found.loops == (EventLoop(fake.loop, "_UnixSelectorEventLoop", None),)
    assert found.tasks[0].thread is None


def test_a_loop_without_tasks(fake: FakeTasks) -> None:
    fake.publish()
    found, problems = look(fake)
    assert (found.loops, found.tasks, problems) == ((EventLoop(fake.loop, "_UnixSelectorEventLoop", 1),), (), [])


def test_nothing_is_said_where_asyncio_is_not_used(fake: FakeTasks) -> None:
    assert look(fake) == (AsyncioTasks(), [])


def test_a_task_that_cannot_be_read_is_one_line(fake: FakeTasks) -> None:
    fake.task("good", fake.coroutine("work"))
    bad = fake.task("bad", fake.coroutine("work"), state=9)
    lost = fake.task("lost", fake.coroutine("work", 0x10))
    fake.publish()
    found, problems = look(fake)
    assert [task.name for task in found.tasks] == ["good", "lost"]
    assert [problem.where for problem in problems] == [f"task {bad:#x}", f"task {lost:#x}"]


def test_many_that_cannot_be_read(fake: FakeTasks) -> None:
    coroutine = fake.coroutine("work")
    for i in range(30):
        fake.task(f"bad-{i}", coroutine, state=9)
    fake.publish()
    _, problems = look(fake)
    assert len(problems) == 21
    assert problems[-1] == Problem("tasks of asyncio", "unreadable", because("more-unreadable", count=10))


def test_a_layout_that_does_not_fit_is_told_once(fake: FakeTasks) -> None:
    for i in range(3):
        fake.task(f"t{i}", fake.coroutine("work"))
    fake.build.put("PyTypeObject", fake.type_object("_asyncio.Task"), tp_basicsize=8)
    fake.publish()
    found, problems = look(fake)
    assert found == AsyncioTasks()
    problem, = problems
    assert (problem.where, problem.what) == ("asyncio in interpreter 0", "not applicable")


@pytest.mark.parametrize("seed", combinations.seeds(4))
def test_damaged_memory_raises_nothing(fake: FakeTasks, seed: int) -> None:
    outer = fake.future()
    callback = fake.callback(f"{LIBRARY}/tasks.py", outer=outer)
    tasks = [fake.task("inner", fake.coroutine("doze"), callbacks=[callback] * 3), awaiting(fake, "shielding", outer)]
    queue = fake.instance("Queue", inline=False)
    tasks += [library(fake, f"t{i}", fake.future(), "queues", "get", {"it": queue}, self=queue) for i in range(4)]
    tasks.append(awaiting(fake, "all", fake.gathering(tasks)))
    tasks.append(library(fake, "some", fake.future(), "tasks", "_wait", fs=fake.set_of(tasks)))
    fake.publish()
    damage(fake.memory, seed, fake.none, tasks[-1] + 8192)
    look(fake)


def damage(memory: FakeMemory, seed: int, low: int, high: int) -> None:
    chooser = random.Random(seed)
    for _ in range(500):
        at = chooser.randrange(low, high) & ~7
        try:
            if not any(memory.read(at, 8)):
                continue
        except Exception:
            continue
        memory.u64(at, chooser.choice([0, 1, chooser.getrandbits(64), chooser.randrange(low, high) & ~15,
                                       chooser.getrandbits(20)]))
