from __future__ import annotations

import random

import pytest

import gdbext.verdict.tasks
from gdbext.cpython.frames import FrameReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import PythonRuntime, iter_interpreters
from gdbext.cpython.tasks import AsyncioReader, uses_asyncio
from gdbext.inferior.protocol import Module
from gdbext.model import Awaited, EventLoop, Problem, Task, TaskStatus
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import Python
from gdbext.verdict.tasks import AsyncioTasks, find_cycles, find_tasks
from tests.support import combinations
from tests.support.fake_memory import FakeMemory
from tests.support.fake_tasks import LIBRARY, VERSIONS, FakeTasks

#: A version without names of tasks has none to order them by.
NAMED = VERSIONS[1:]


@pytest.fixture(params=NAMED)
def fake(request: pytest.FixtureRequest) -> FakeTasks:
    return FakeTasks(request.param)


def python_of(fake: FakeTasks) -> Python:
    at = fake.build.member("_PyRuntimeState", fake.runtime_address, "interpreters_head")
    runtime = PythonRuntime(fake.runtime_address, Module("/usr/lib/libpython.so", ()), fake.version, "default",
                            fake.layouts, at)
    objects = Objects(fake.memory, fake.layouts)
    return Python(runtime, objects, FrameReader(fake.memory, fake.layouts, objects),
                  interpreters=list(iter_interpreters(fake.memory, runtime)))


def look(fake: FakeTasks, number: int | None = 1) -> tuple[AsyncioTasks, list[Problem]]:
    findings = Findings()
    numbers = {fake.tstate: number} if number is not None else {}
    python = python_of(fake)

    def reader_of(python: Python, interpreter: int) -> AsyncioReader | None:
        return (AsyncioReader(fake.memory, fake.layouts, python.objects, python.frames, interpreter)
                if uses_asyncio(python.objects, interpreter) else None)

    return find_tasks(fake.memory, [python], numbers, reader_of, findings), findings.problems


def one(fake: FakeTasks, name: str) -> Task:
    found, problems = look(fake)
    assert problems == []
    task, = [task for task in found.tasks if task.name == name]
    return task


def awaiting(fake: FakeTasks, name: str, future: int, file: str = "/app/job.py", function: str = "work",
             **variables: int) -> int:
    """A task that waits for a future."""
    iterator = fake.object_of("_asyncio.FutureIter")
    return fake.task(name, fake.coroutine(function, iterator, file=file, variables=variables), waiter=future)


def library(fake: FakeTasks, name: str, future: int, file: str, function: str, outer: dict[str, int] | None = None,
            **variables: int) -> int:
    """A task in which a function of asyncio waits, called by the program's own."""
    iterator = fake.object_of("_asyncio.FutureIter")
    inner = fake.coroutine(function, iterator, file=f"{LIBRARY}/{file}.py", variables=variables)
    return fake.task(name, fake.coroutine("work", inner, variables=outer), waiter=future)


def derived(fake: FakeTasks, *names: str) -> int:
    """An object of a class that is derived from others, nearest first."""
    at = fake.instance(names[0])
    for own, base in zip(names, names[1:]):
        fake.build.put("PyTypeObject", fake.type_object(own), tp_base=fake.type_object(base))
    return at


# -- what a task waits for ------------------------------------------------------------------------------------------

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


def test_all_that_is_looked_at_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gdbext.verdict.tasks, "_MAX_READ", 60)
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


# -- circles --------------------------------------------------------------------------------------------------------

def waits(address: int, *others: int, state: TaskStatus = "pending", **more: object) -> Task:
    """A task that waits for the end of other tasks."""
    awaits = Awaited(others, **more)  # type: ignore[arg-type]
    return Task(address, None, 0, None, state, (), awaits)


def held(address: int, *holders: int) -> Task:
    """A task that waits for a lock."""
    return Task(address, None, 0, None, "pending", (), Awaited((), 0, "asyncio.Lock", 1, None, holders))


def test_tasks_in_a_circle() -> None:
    assert find_cycles([waits(3, 1), waits(1, 2), waits(2, 3)]) == ((1, 2, 3),)


def test_a_task_that_waits_for_itself() -> None:
    assert find_cycles([held(5, 5)]) == ((5,),)


def test_locks_make_circles_too() -> None:
    assert find_cycles([held(1, 2), waits(2, 1)]) == ((1, 2),)


def test_who_is_behind_a_circle_is_not_in_it() -> None:
    assert find_cycles([waits(9, 1), waits(1, 2), waits(2, 1), waits(8, 9)]) == ((1, 2),)


def test_two_circles() -> None:
    assert find_cycles([waits(1, 2), waits(2, 1), waits(3, 4), waits(4, 3)]) == ((1, 2), (3, 4))


def test_no_circle() -> None:
    assert find_cycles([waits(1, 2), waits(2, 3), waits(3)]) == ()
    assert find_cycles([waits(1, 7)]) == (), "7 is not known"
    assert find_cycles([]) == ()


def test_a_wait_that_ends_by_itself_makes_no_circle() -> None:
    assert find_cycles([waits(1, 2, timed=True), waits(2, 1)]) == ()


def test_a_wait_for_several_ends_when_one_of_them_does() -> None:
    assert find_cycles([waits(1, 2, 3), waits(2, 1), waits(3)]) == (), "3 may fail, and so end the wait of 1"
    assert find_cycles([waits(1, 2, others=1), waits(2, 1)]) == (), "another future may"
    assert find_cycles([waits(1, 2, 3), waits(2, 1), waits(3, 1)]) == ((1, 2),)


def test_a_task_that_is_finished_makes_no_circle() -> None:
    assert find_cycles([waits(1, 2), waits(2, 1, state="done")]) == ()
    assert find_cycles([waits(1, 2), waits(2, 1, state="running")]) == ()


@pytest.mark.slow
def test_a_circle_of_very_many() -> None:
    count = 100_000
    circle, = find_cycles([waits(i, (i + 1) % count) for i in range(count)])
    assert circle == tuple(range(count))
