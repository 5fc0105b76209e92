"""Explanations by what threads of this process have to do: results, calls of pools, items of queues, events."""

from __future__ import annotations

from gdbext.model import RESULT_PENDING, RESULT_STATES, Lock, PyFrame, Thread
from gdbext.model.connection_pools import pool_of
from gdbext.model.frames import library_of
from gdbext.model.kinds import kind_of
from gdbext.model.reasons import find_reasons, is_alone
from gdbext.model.standard_library import role_of
from gdbext.model.verdict import Verdict, VerdictKind
from gdbext.verdict.explanations.tasks import waits_for_connection
from gdbext.verdict.scene import JUST_NOW, Scene, continues, is_timed, time_left

#: A thread that sleeps for longer is not on the way to end the waits of others, in seconds.
_SOON = 60.0


def pool(scene: Scene) -> Verdict | None:
    """All workers of the pools of threads wait for results of calls behind themselves, and no thread runs."""
    workers = [thread for thread in scene.report.threads if any(
        isinstance(frame, PyFrame) and role_of(frame) == "thread-worker" for frame in thread.stack)]
    if not workers or scene.running or not all(
            scene.waits_for_result(worker) and not scene.holders(worker) and _is_queued(scene, worker)
            for worker in workers):
        return None
    others = [thread.number for thread in scene.report.threads
              if thread not in workers and scene.waits_for_result(thread)]
    return Verdict("pool", tuple(worker.number for worker in workers), tuple(others))


def _is_queued(scene: Scene, worker: Thread) -> bool:
    """Whether a worker waits for the result of a call in the queue of its pool."""
    lock = scene.lock(worker)
    return lock is not None and next(find_reasons(lock.why, "call-is-queued"), None) is not None


def connection(scene: Scene) -> Verdict | None:
    """Threads or tasks wait for a free connection of a pool, and no thread runs."""
    if scene.running:
        return None
    threads = [thread.number for thread in scene.report.threads
               if (lock := scene.lock(thread)) is not None and not lock.holders and not is_timed(thread)
               and scene.has_waited(thread) and pool_of(thread.stack) is not None]
    if threads:
        return Verdict("blocked-behind", tuple(threads), tuple(scene.behind(threads[0])))
    for task in scene.report.tasks:
        thread = scene.threads.get(task.thread) if task.thread is not None else None
        if thread is not None and scene.has_waited(thread) and waits_for_connection(task):
            return Verdict("blocked-behind", (thread.number,), tasks=(task.address, *(
                other.address for other in scene.report.tasks if other.loop == task.loop and other is not task
                and waits_for_connection(other))))
    return None


def result(scene: Scene) -> Verdict | None:
    """Threads wait for room in a queue, for the end of its tasks, or for a result, and no thread runs."""
    if scene.running:
        return None
    goes_on = any(continues(thread) or thread.since is not None and thread.since < JUST_NOW
                  for thread in scene.report.threads)
    waiting = [(thread, lock) for thread in scene.report.threads
               if thread.waits is not None and not thread.waits.timed
               and (lock := scene.lock(thread)) is not None and lock.state in RESULT_STATES
               # where threads go on after a time or have just run, their work ends such waits again and again
               and (thread.since is None or scene.has_waited(thread) or not goes_on)]
    if not waiting:
        return None
    waiter, first = waiting[0]
    end = _end_of_results(scene, waiter)
    if end is not None:
        return Verdict("blocked-behind", (end,), tuple(scene.behind(end)))
    kind: VerdictKind = "blocked-behind" if first.state == RESULT_PENDING else "queue"
    return Verdict(kind, tuple(thread.number for thread, lock in waiting if lock.state == first.state))


def _end_of_results(scene: Scene, waiter: Thread) -> int | None:
    """The last of the threads each of which makes the result that the one before waits for; None if there is none."""
    passed = [waiter.number]
    while scene.waits_for_result(scene.threads[passed[-1]]):
        holders = scene.holders(scene.threads[passed[-1]])
        if len(holders) != 1 or holders[0] in passed or holders[0] not in scene.threads:
            break
        passed += holders
    return passed[-1] if len(passed) > 1 else None


def left_waiting(scene: Scene) -> Verdict | None:
    """Threads wait in the middle of work for what a thread of the process has to do, and none is on the way to it.

    Those that go on after a time have run since, and have not done it.
    """
    if scene.running or any(_is_elsewhere(scene, thread) for thread in scene.report.threads):
        return None
    waiting = [thread for thread in scene.report.threads if _is_left(scene, thread)]
    if not waiting:
        return None
    numbers = tuple(thread.number for thread in waiting)
    behind = dict.fromkeys(other for number in numbers for other in scene.behind(number) if other not in numbers)
    return Verdict("blocked-behind", numbers, tuple(behind))


def _is_left(scene: Scene, thread: Thread) -> bool:
    """Whether a thread waits in the middle of work, or alone, for any thread of the process to do something."""
    lock = scene.lock(thread)
    if lock is None or lock.holders or not kind_of(lock.kind).own_threads_only or lock.orphan or (
            lock.shared and not is_alone(lock.why)):
        return False
    kind = kind_of(lock.kind)
    if _is_in_loop_of_closed(scene, thread, lock):
        return True
    if len(scene.threads) == 1 and (kind.released_by == "own-threads" or thread.at_work is not None):
        # a core does not say how long a timeout was to last
        return scene.has_waited(thread) and (scene.report.target.kind == "core" or not is_timed(thread))
    if is_timed(thread) or thread.at_work is None or thread.number == scene.first and (
            kind.may_end_program or kind.behaviour == "thread-end"):
        return False
    return scene.has_waited(thread) and (scene.report.target.kind == "core" or not any(
        _may_end(other, thread) for other in scene.report.threads))


def _is_in_loop_of_closed(scene: Scene, thread: Thread, lock: Lock) -> bool:
    """Whether a worker waits for an event in a function that its loop has called, and nothing can wake its process.

    A worker that waits for its next work waits for an item of a queue, or it waits in the function with the loop.
    """
    own = [frame for frame in thread.stack if isinstance(frame, PyFrame) and library_of(frame) is None]
    is_called = thread.in_loop is not None and bool(own) and own[0] != thread.in_loop
    return (is_called and thread.number != scene.first and kind_of(lock.kind).may_end_program
            and scene.has_waited(thread) and all(map(scene.waits_inside, scene.threads)))


def _may_end(other: Thread, thread: Thread) -> bool:
    """Whether a thread goes on soon, and has not run since another one began to wait."""
    return continues(other) and (time_left(other) or 0.0) < _SOON and (
        other.since is None or thread.since is None or other.since >= thread.since)


def _is_elsewhere(scene: Scene, thread: Thread) -> bool:
    """Whether a thread waits for the world outside in the middle of work, and may do something afterwards."""
    return thread.at_work is not None and scene.waits_outside(thread) and not scene.is_served(thread)
