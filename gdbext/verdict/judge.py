"""Finds the verdict of a report: the first explanation in `EXPLANATIONS` that fits. Pure.

Proofs that threads cannot continue come first, so that no weaker explanation hides one. Then come threads that block
others while they wait for something outside of the process, and then the reasons why there is no verdict. "Idle" is
last: it is the verdict only if each thread has a reason to be where it is.
"""

from __future__ import annotations

from collections.abc import Callable

from gdbext.model import TO_WRITE, Report
from gdbext.model.verdict import Verdict
from gdbext.verdict.ended_by import FOR_CHILDREN
from gdbext.verdict.explanations import doubts, locks, outside, process, results, tasks
from gdbext.verdict.scene import Scene, takes_work

#: Verdicts that name a cause by themselves.
_CAUSES = frozenset(("event-loop-blocked", "pool", "queue", "polling", "stopped"))
EXPLANATIONS: tuple[Callable[[Scene], Verdict | None], ...] = (
    process.crash, process.stopped,
    # proofs that threads or tasks cannot continue
    locks.deadlock, tasks.task_cycle, tasks.greenlet_cycle, locks.orphaned_lock, locks.standstill, process.died,
    # one that waits holds up others
    tasks.event_loop, outside.blocked_behind, tasks.greenlets_behind, doubts.not_judged, locks.held_up,
    # no thread runs
    outside.job, outside.in_kernel, outside.first_thread, results.pool, results.connection, results.result,
    tasks.tasks_left, results.left_waiting,
    doubts.unknown_holder, doubts.unknown_greenlet, doubts.only_threads_could_wake,
    process.polling, process.computing, doubts.unreadable)


def verdict_of(report: Report) -> Verdict:
    """The verdict that a report contains, or else the one that follows from it."""
    return report.verdict if report.verdict is not None else judge(report)


def judge(report: Report) -> Verdict:
    """The verdict that follows from a report."""
    scene = Scene(report)
    for explain in EXPLANATIONS:
        found = explain(scene)
        if found is not None:
            return found
    return Verdict("idle")


def ends_by_itself(report: Report) -> bool | None:
    """Whether the state that the verdict describes ends without help; None if neither is known.

    It does if each thread of the verdict, or else the first thread, runs, continues after a time, or waits for locks
    of threads that do.
    """
    verdict = verdict_of(report)
    if verdict.outcome == "stuck":
        return False
    if verdict.outcome == "doubt" or verdict.kind == "stopped" or verdict.greenlets:
        return None
    scene = Scene(report)
    return True if scene.continuing.issuperset(verdict.threads or (scene.first,)) else None


def awaited_processes(report: Report) -> tuple[int, ...]:
    """The processes, by PID, that can end the waits which the verdict is about."""
    verdict = verdict_of(report)
    return tuple(dict.fromkeys(
        ender.process for thread in report.threads if thread.number in verdict.threads and verdict.outcome == "outside"
        for ender in thread.ended_by if ender.process is not None))


def waits_for_end(report: Report) -> bool:
    """Whether the thread that the verdict is about waits for the end of child processes, not for what they send."""
    threads = verdict_of(report).threads
    thread = report.thread(threads[0]) if threads else None
    return thread is not None and thread.blocked_on is not None and thread.blocked_on.code in FOR_CHILDREN


def serves_others(report: Report) -> bool:
    """Whether a process, as a pool's worker, takes requests from another one, until that closes its end of a pipe."""
    return bool(report.threads) and takes_work(min(report.threads, key=lambda thread: thread.number))


def takes_next(report: Report) -> bool:
    """Whether the threads that the verdict is about wait for their next work."""
    verdict = verdict_of(report)
    threads = [thread for thread in report.threads if thread.number in verdict.threads]
    return bool(threads) and all(thread.takes_next for thread in threads)


def is_cause(report: Report) -> bool:
    """Whether a process hangs for another reason than that it waits for work, as from a process that is at rest."""
    verdict = verdict_of(report)
    if verdict.behind or verdict.kind in _CAUSES:
        return True
    thread = report.thread(verdict.threads[0]) if verdict.threads else None
    if thread is not None and thread.at_work is not None and not thread.at_work.is_module:
        return True
    lock = report.lock(thread.waits.lock) if thread is not None and thread.waits is not None else None
    # a process at rest does not leave a pipe full for long
    return lock is not None and (not lock.is_outside or lock.state == TO_WRITE and (
        thread is None or thread.since is None or Scene(report).has_waited(thread)))
