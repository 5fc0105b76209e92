from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from gdbext.model import Awaited, EventLoop, Problem, Task
from gdbext.tasks.trio_tasks import find_trio_tasks
from gdbext.threads.findings import Findings
from tests.support.asyncio_tasks import python_of
from tests.support.fake_tasks import VERSIONS, FakeTasks

TRIO = "/usr/lib/python3/dist-packages/trio"


@pytest.fixture(params=VERSIONS)
def fake(request: pytest.FixtureRequest) -> FakeTasks:
    return FakeTasks(request.param)


class Trio:
    """A loop of trio in a thread that waits in it."""

    def __init__(self, fake: FakeTasks) -> None:
        self.fake = fake
        self.endless = self.status(math.inf)
        self.tasks: list[int] = []

    def number(self, value: float) -> int:
        """A Python float."""
        return self.fake.builtin("float", "PyFloatObject", **self.fake.words("PyFloatObject", ob_fval=value))

    def status(self, deadline: float, parent: int = 0) -> int:
        """The status of a cancel scope."""
        scope = self.fake.instance("CancelScope", _deadline=self.number(deadline))
        return self.fake.instance("CancelStatus", _scope=scope, _parent=parent or self.fake.none)

    def suspended(self, file: str, function: str, owner: int = 0, **own: int) -> int:
        """A coroutine of the program that calls a function of trio, with the object as ``self``."""
        sleep = self.fake.coroutine("wait_task_rescheduled", kind="generator", file=f"{TRIO}/_core/_traps.py")
        inner = self.fake.coroutine(function, sleep, file=f"{TRIO}/{file}",
                                    variables={"self": owner} if owner else {})
        return self.fake.coroutine("work", inner, variables=own)

    def task(self, name: str, coroutine: int, status: int = 0, nurseries: Sequence[int] = (), send: int = 0) -> int:
        """A task of the loop."""
        at = self.fake.instance(
            "Task", name=self.fake.string(name), coro=coroutine, _child_nurseries=self.fake.list_object(*nurseries),
            _next_send_fn=send or self.fake.none, _cancel_status=status or self.endless)
        self.tasks.append(at)
        return at

    def nursery(self, *children: int) -> int:
        """A nursery."""
        return self.fake.instance("Nursery", _children=self.fake.set_of(children))

    def look(self) -> tuple[list[EventLoop], dict[str | None, Task], list[Problem]]:
        """What is found when the thread waits for events."""
        fake = self.fake
        runner = fake.instance("Runner", tasks=fake.set_of(self.tasks), init_task=fake.none)
        frame = fake.frame(fake.code_with(f"{TRIO}/_core/_run.py", "run", ["runner"]))
        fake.fill(frame, [runner])
        fake.innermost(fake.tstate, frame)
        findings = Findings()
        loops, tasks = find_trio_tasks(fake.memory, python_of(fake), [fake.tstate], {fake.tstate: 1}, findings)
        return loops, {task.name: task for task in tasks}, findings.problems


def test_tasks_that_wait_for_each_other_and_for_an_object(fake: FakeTasks) -> None:
    trio = Trio(fake)
    channel = fake.instance("MemoryReceiveChannel")
    consumer = trio.task("consume", trio.suspended("_channel.py", "receive", channel, receiver=channel))
    nursery = trio.nursery(consumer)
    parent = trio.task("main", trio.suspended("_core/_run.py", "_nested_child_finished", nursery), nurseries=[nursery])
    loops, tasks, problems = trio.look()
    assert ([loop.kind for loop in loops], loops[0].thread, loops[0].watched, problems) == (["trio"], 1, 0, [])
    assert tasks["consume"].awaits == Awaited((), 0, "trio.MemoryReceiveChannel", channel, "receiver")
    assert tasks["main"].awaits == Awaited((consumer,), 0, "trio.Nursery")
    assert tasks["consume"].awaited_by == (parent,)
    assert [frame.function for frame in tasks["consume"].stack] == ["wait_task_rescheduled", "receive", "work"]


def test_owner_of_a_lock(fake: FakeTasks) -> None:
    trio = Trio(fake)
    owner = trio.task("owner", trio.suspended("_timeouts.py", "sleep_until"), trio.status(5.0))
    lock = fake.instance("Lock", _owner=owner)
    trio.task("waiter", trio.suspended("_sync.py", "acquire", lock, lock=lock))
    _, tasks, _ = trio.look()
    assert tasks["waiter"].awaits == Awaited((), 0, "trio.Lock", lock, "lock", (owner,))
    assert tasks["owner"].awaits == Awaited(others=1, kind="trio.sleep", timed=True)


def test_deadline_of_an_outer_scope(fake: FakeTasks) -> None:
    trio = Trio(fake)
    event = fake.instance("Event")
    inner = trio.status(math.inf, trio.status(60.0))
    trio.task("t", trio.suspended("_sync.py", "wait", event), inner)
    assert trio.look()[1]["t"].awaits.timed


def test_tasks_that_something_outside_can_wake(fake: FakeTasks) -> None:
    trio = Trio(fake)
    trio.task("server", trio.suspended("_core/_io_epoll.py", "wait_readable"))
    trio.task("unknown", trio.suspended("_other.py", "something"))
    trio.task("ready", trio.suspended("_sync.py", "wait", fake.instance("Event")), send=fake.function("send"))
    loops, tasks, _ = trio.look()
    assert loops[0].watched == 1
    assert tasks["server"].awaits == Awaited(others=1, kind="trio.lowlevel.wait_readable")
    assert tasks["unknown"].awaits == Awaited(others=1, kind="trio")
    assert tasks["ready"].awaits == Awaited()


def test_task_that_cannot_be_read(fake: FakeTasks) -> None:
    """Then it is not known what the loop watches."""
    trio = Trio(fake)
    bad = trio.task("bad", 0x10)
    loops, tasks, problems = trio.look()
    assert (loops[0].watched, [problem.where for problem in problems]) == (None, [f"task {bad:#x}"])
    assert tasks["bad"].awaits == Awaited(others=1, kind="trio")
