"""Explanations by tasks of asyncio and by greenlets: cycles, event loops that do not run, locks between them."""

from __future__ import annotations

from gdbext.model import DERIVED, Task, weakest
from gdbext.model.connection_pools import pool_of
from gdbext.model.frames import library_of
from gdbext.model.standard_library import role_of
from gdbext.model.verdict import Verdict
from gdbext.verdict.scene import Scene, continues

#: What the event loop of a greenlet watches for it, besides the time.
_WATCHED = frozenset(("io", "child", "signal"))
#: The kind of an event loop of trio, and the module before the name of an awaited object.
TRIO = "trio"
_MODULES = frozenset(("asyncio", TRIO))
#: Classes of asyncio and trio by which tasks wait for each other: queues, those that are events, and all.
_QUEUES = frozenset(("Queue", "PriorityQueue", "LifoQueue"))
_EVENTS = frozenset(("Event", "Condition", "MemoryReceiveChannel"))
_OBJECTS = frozenset((*_QUEUES, *_EVENTS, "Lock", "Semaphore", "BoundedSemaphore", "Barrier", "StrictFIFOLock",
                      "CapacityLimiter", "MemorySendChannel"))


def task_cycle(scene: Scene) -> Verdict | None:
    """Tasks of asyncio wait for each other."""
    cycles = scene.report.task_cycles
    return Verdict("task-cycle", tasks=cycles[0], evidence=DERIVED) if cycles else None


def greenlet_cycle(scene: Scene) -> Verdict | None:
    """Greenlets wait for each other."""
    cycles = scene.report.greenlet_cycles
    if not cycles:
        return None
    known = {each.address: each.waits for each in scene.report.greenlets}
    # what wakes a greenlet is recorded, and so is the greenlet whose end it waits for
    evidence = weakest([waits.evidence for address in cycles[0] if (waits := known.get(address)) is not None
                        and waits.evidence is not None])
    return Verdict("greenlet-cycle", greenlets=cycles[0], evidence=evidence)


def event_loop(scene: Scene) -> Verdict | None:
    """A task runs in a thread that is blocked, so no other task of its loop can run."""
    for task in scene.report.tasks:
        thread = scene.threads.get(task.thread) if task.thread is not None else None
        if task.state != "running" or thread is None or thread.status != "blocked" or scene.is_requesting(thread):
            continue
        if any(scene.threads[number].status == "running" for number in scene.holders(thread)
               if number in scene.threads):
            continue  # that thread will release the lock, so the call will end
        return Verdict("event-loop-blocked", (thread.number,), tuple(scene.behind(thread.number)),
                       (task.address, *_others(scene, task)))
    return None


def _others(scene: Scene, running: Task) -> list[int]:
    return [task.address for task in scene.report.tasks
            if task.loop == running.loop and task.address != running.address and task.state == "pending"]


def greenlets_behind(scene: Scene) -> Verdict | None:
    """A greenlet that has a lock waits for something outside of the process, and others wait for the lock.

    Of several such greenlets, the one with most others behind it.
    """
    best: Verdict | None = None
    if scene.running:
        return None
    waiting: dict[int, list[int]] = {}
    for each in scene.report.greenlets:
        if each.waits is not None and not each.waits.timed:
            for holder in each.waits.holders:
                waiting.setdefault(holder, []).append(each.address)
    for each in scene.report.greenlets:
        if each.waits is None or each.thread is None or each.waits.kind not in _WATCHED or each.waits.timed:
            continue
        behind: dict[int, None] = {}
        left = [each.address]
        while left:
            for waiter in waiting.get(left.pop(), ()):
                if waiter not in behind and waiter != each.address:
                    behind[waiter] = None
                    left.append(waiter)
        if behind and len(behind) >= (len(best.greenlets) if best is not None else 0):
            best = Verdict("blocked-behind", (each.thread,), greenlets=(each.address, *behind))
    return best


def tasks_left(scene: Scene) -> Verdict | None:
    """All tasks of an event loop wait for tasks or objects of asyncio, one of them for a lock, room or work to be done.

    Of the tasks, only new ones could change that, as of a server. A task that waits for an event or an item is at rest.
    """
    if scene.running:
        return None
    for loop in scene.report.event_loops:
        thread = scene.threads.get(loop.thread) if loop.thread is not None else None
        tasks = [task for task in scene.report.tasks if task.loop == loop.address
                 and task.state in ("running", "pending")]
        if thread is None or continues(thread) or not tasks or not all(map(waits_inside, tasks)):
            continue
        left = [task.address for task in tasks if _needs_work(task)]
        if left:
            return Verdict("blocked-behind", (thread.number,), tasks=(
                *left, *(task.address for task in tasks if task.address not in left)))
    return None


def waits_inside(task: Task) -> bool:
    """Whether a task is suspended and waits, without a timeout, for what other tasks have to do."""
    awaits = task.awaits
    return task.state == "pending" and not awaits.timed and not awaits.others and (
        bool(awaits.tasks) or _class_of(task) in _OBJECTS)


def waits_for_connection(task: Task) -> bool:
    """Whether a task waits, without a timeout, for a free connection of a pool."""
    if task.state != "pending" or task.awaits.timed or pool_of(task.stack) is None:
        return False
    # such functions connect, too
    return _class_of(task) in _OBJECTS or library_of(task.stack[0]) == pool_of(task.stack)


def _needs_work(task: Task) -> bool:
    """Whether a task waits for an object that is no event: for a lock, for room, or for work to be done."""
    kind = _class_of(task)
    if kind in _QUEUES:
        return any(role_of(frame) == "waits-for-consumers" for frame in task.stack)
    return not task.awaits.tasks and kind in _OBJECTS and kind not in _EVENTS


def _class_of(task: Task) -> str:
    """The class of the object of asyncio or trio that a task waits for; empty if it waits for something else."""
    module, _, name = (task.awaits.kind or "").partition(".")
    return name if module in _MODULES else ""
