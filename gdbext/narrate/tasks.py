"""Tasks of asyncio and trio: their names, their waits, and cycles of tasks."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.model import EventLoop, Task
from gdbext.narrate.names import Facts, thread_name
from gdbext.narrate.threads import doing as thread_doing
from gdbext.narrate.words import Foreign, Marked, Words, listed, plural

#: The text for a process without event loops.
NO_LOOPS = "No event loop of asyncio or trio runs or has tasks."
#: How many names a list shows before "and N more".
_MANY = 8


def task_name(task: Task) -> Words:
    """A task's name and address."""
    name: Words = ('"', Foreign(task.name, 60), '" ') if task.name is not None else ()
    return (*name, f"{task.address:#x}")


def task_list(tasks: Sequence[Task]) -> Words:
    """The names and addresses of tasks."""
    more = f" and {len(tasks) - _MANY:,} more" if len(tasks) > _MANY else ""
    return (*listed([task_name(task) for task in tasks[:_MANY]]), more)


def loop_name(loop: EventLoop) -> Words:
    """An event loop's address and class."""
    return (Marked("name", (f"Event loop {loop.address:#x} (", Foreign(loop.kind), ")")),)


def loop_thread(facts: Facts, loop: EventLoop) -> Words:
    """The thread that runs an event loop."""
    return ("runs in ", *thread_name(facts, loop.thread)) if loop.thread is not None else (
        # a loop of trio-asyncio runs inside of trio, and asyncio does not know about that
        "runs in no thread that asyncio records",)


def doing(facts: Facts, task: Task, again: bool = False, group: Sequence[Task] = (), below: bool = True) -> Words:
    """What a task does: "runs", "waits for ...".

    :param again: whether tasks that it waits for were shown already.
    :param group: the tasks that it represents.
    :param below: whether a task that it waits for is shown below it; if not, the awaited tasks are named.
    """
    awaits = task.awaits
    if task.state == "running":
        thread = facts.threads.get(task.thread) if task.thread is not None else None
        return ("runs; its thread ", *thread_doing(facts, thread)) if thread is not None else ("runs",)
    if task.state != "pending":
        return (f"is {task.state}",)
    timed = ", with a timeout" if awaits.timed else ""
    if awaits.tasks:
        count = len(awaits.tasks)
        this: Words = ("the task below",) if count == 1 and not again else (plural(count, "task"),)
        if not below:
            this = task_list(facts.known_tasks(awaits.tasks))
        others = f" and {plural(awaits.others, 'other future')}" if awaits.others else ""
        kind: Words = (" (", Foreign(awaits.kind), ")") if awaits.kind else ()
        return ("waits for ", *this, others, *kind, timed)
    if awaits.kind is None:
        return ("is ready to run",)
    if awaits.kind == "asyncio.sleep":
        return ("sleeps",)
    if len({other.awaits.address for other in group}) > 1:
        return ("waits for another ", Foreign(awaits.kind), timed)
    held: Words = ()
    if awaits.holders:
        held = (", held by ", *task_list(facts.known_tasks(awaits.holders)))
    return ("waits for ", Marked("lock", (Foreign(awaits.what or "", 200),)), *held, timed)


def cycle(tasks: Sequence[Task]) -> Words:
    """A cycle of tasks: each waits for the next, and the last for the first."""
    start = Marked("bad", ("Cycle of tasks",))
    if len(tasks) == 1:
        return (start, ": ", *task_name(tasks[0]), " waits for itself; it continues only if it is cancelled.")
    more = f" ({len(tasks) - _MANY:,} more between)" if len(tasks) > _MANY else ""
    return (start, " that wait for each other, without a timeout: ",
            *listed([task_name(task) for task in [*tasks[:_MANY], *tasks[:1]]], " -> "),
            f"{more}; they continue only if one of them is cancelled.")
