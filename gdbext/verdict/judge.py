"""Finds the verdict of a report: the first explanation in `_EXPLANATIONS` that fits. Pure.

Proofs that threads cannot continue come first, so that no weaker explanation hides one. Then come threads that block
others while they wait for something outside of the process, and then the reasons why there is no verdict. "Idle" is
last: it is the verdict only if each thread has a reason to be where it is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from gdbext.model import (
    DERIVED,
    INFERRED,
    RECORDED,
    RESULT_PENDING,
    RESULT_STATES,
    TO_WRITE,
    Deadlock,
    Fault,
    Lock,
    NativeFrame,
    PyFrame,
    Report,
    Task,
    Thread,
    weakest,
)
from gdbext.model.frames import library_of
from gdbext.model.kinds import GIL, kind_of
from gdbext.model.reasons import find_reasons, parts
from gdbext.model.verdict import Verdict, VerdictKind
from gdbext.verdict.ended_by import FOR_A_TIME, FOR_CHILDREN, LONG

#: Other waits of a thread that only an event outside of the process ends.
_OUTSIDE = frozenset((
    "waits-for-aio", "waits-for-message", "waits-for-room", "waits-for-semaphores", "opens", "wrote-a-part"))
#: Verdicts that name a cause by themselves.
_CAUSES = frozenset(("event-loop-blocked", "pool", "queue", "polling", "stopped"))
#: Waits for a file system, which have no timeout.
_FILE_SYSTEM = frozenset(("waits-for-file-system", "opens"))
#: A wait for a database, which is described only once it has lasted.
_DATABASE = "waits-for-database"
#: Functions of the C library that look up addresses or names of hosts.
_LOOKUPS = frozenset((
    "getaddrinfo", "gethostbyaddr", "gethostbyaddr_r", "gethostbyname", "gethostbyname2", "gethostbyname2_r",
    "gethostbyname_r", "getnameinfo"))
#: Waits for the GPU, also of a thread that runs in a loop meanwhile.
_ON_GPU = frozenset(("waits-for-gpu", "waits-in-cuda"))
#: What the event loop of a greenlet watches for it, besides the time.
_WATCHED = frozenset(("io", "child", "signal"))
#: System calls with which event loops and servers wait for work.
_SERVING = frozenset(("epoll_wait", "epoll_pwait", "epoll_pwait2", "accept", "accept4", "io_uring_enter"))
#: How long a thread waits at least until what others do counts as not enough, in seconds.
_A_WHILE = 1.0
#: Classes of asyncio by which tasks wait for each other: queues, those that are events, and all.
_ASYNCIO, _QUEUES = "asyncio.", frozenset(("Queue", "PriorityQueue", "LifoQueue"))
_EVENTS = frozenset(("Event", "Condition"))
_OBJECTS = frozenset((*_QUEUES, *_EVENTS, "Lock", "Semaphore", "BoundedSemaphore", "Barrier"))
#: The file of the standard library with the queues of asyncio, and the functions that do not wait for an item.
_QUEUE_FILE, _NEEDS_WORK = re.compile(r"(?:^|/)asyncio/queues\.py$"), frozenset(("join", "put"))
#: The file of the standard library with the workers of a pool of threads, and their function.
_POOL, _POOL_WORKER = re.compile(r"(?:^|/)concurrent/futures/thread\.py$"), "_worker"
#: The file of asyncio with the function that waits for the threads of a loop that ends, and this function.
_LOOP, _LOOP_ENDS = re.compile(r"(?:^|/)asyncio/base_events\.py$"), "_do_shutdown"
#: The files of the standard library with the workers of pools of processes, and their functions.
_PROCESS_POOLS = re.compile(r"(?:^|/)(?:concurrent/futures/process|multiprocessing/pool)\.py$")
_PROCESS_WORKERS = frozenset(("_process_worker", "worker"))
#: What is about to end: a wait that has lasted, or will last, for less than so many seconds.
_SOON = 5.0


def verdict_of(report: Report) -> Verdict:
    """The verdict that a report contains, or else the one that follows from it."""
    return report.verdict if report.verdict is not None else judge(report)


def judge(report: Report) -> Verdict:
    """The verdict that follows from a report."""
    scene = _Scene(report)
    for explain in _EXPLANATIONS:
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
    scene = _Scene(report)
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


def is_cause(report: Report) -> bool:
    """Whether a process hangs for another reason than that it waits for work, as from a process that is at rest."""
    verdict = verdict_of(report)
    if verdict.behind or verdict.kind in _CAUSES:
        return True
    thread = report.thread(verdict.threads[0]) if verdict.threads else None
    if thread is not None and thread.at_work is not None and thread.at_work.function != "<module>":
        return True
    lock = report.lock(thread.waits.lock) if thread is not None and thread.waits is not None else None
    # nobody who is at rest leaves a pipe full
    return lock is not None and (not lock.is_outside or lock.state == TO_WRITE)


class _Scene:
    """A report with what several explanations need."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.threads = {thread.number: thread for thread in report.threads}
        self.locks = {lock.id: lock for lock in report.locks}
        self.first = min(self.threads, default=0)
        self.running = [thread.number for thread in report.threads if thread.status == "running"]
        self.on_gpu = [thread.number for thread in report.threads
                       if thread.blocked_on is not None and thread.blocked_on.code in _ON_GPU]

    def lock(self, thread: Thread) -> Lock | None:
        """The lock inside of the process that a thread waits for."""
        lock = self.locks.get(thread.waits.lock) if thread.waits is not None else None
        return None if lock is None or lock.is_outside else lock

    def holders(self, thread: Thread) -> list[int]:
        """The other threads that hold the lock that a thread waits for; none if the wait has a timeout."""
        lock = self.lock(thread)
        if lock is None or thread.waits is None or thread.waits.timed:
            return []
        return [holder.thread for holder in lock.holders if holder.thread != thread.number]

    @functools.cached_property
    def waiting(self) -> dict[int, list[int]]:
        """The threads that wait for a lock of a thread, by its number."""
        waiting: dict[int, list[int]] = {}
        for thread in self.threads.values():
            for holder in self.holders(thread):
                waiting.setdefault(holder, []).append(thread.number)
        return waiting

    @functools.cached_property
    def wanting(self) -> dict[int, list[int]]:
        """As `waiting`, without those that wait for the end of the thread or for an event."""
        return {number: wanted for number, waiters in self.waiting.items() if number in self.threads and (wanted := [
            waiter for waiter in waiters if (lock := self.lock(self.threads[waiter])) is not None
            and not _only_joins(self, self.threads[waiter]) and not kind_of(lock.kind).is_event])}

    @functools.cached_property
    def continuing(self) -> set[int]:
        """The threads that run, continue after a time, or wait only for locks of such threads."""
        found = {thread.number for thread in self.threads.values() if _continues(thread)}
        left = list(found)
        while left:
            for waiter in self.waiting.get(left.pop(), ()):
                lock = self.lock(self.threads[waiter])
                needs_all = lock is None or lock.wait_for == "all"
                if waiter not in found and (not needs_all or found.issuperset(self.holders(self.threads[waiter]))):
                    found.add(waiter)
                    left.append(waiter)
        return found

    def behind(self, number: int) -> list[int]:
        """The threads that wait for a thread, directly or behind others."""
        found: dict[int, None] = {}
        left = [number]
        while left:
            for waiter in self.waiting.get(left.pop(), ()):
                if waiter not in found and waiter != number:
                    found[waiter] = None
                    left.append(waiter)
        return sorted(found)

    def is_served(self, thread: Thread) -> bool:
        """Whether a thread waits for work: as a server does, for its standard input, or for a signal."""
        lock = self.locks.get(thread.waits.lock) if thread.waits is not None else None
        reads_input = lock is not None and kind_of(lock.kind).outside and lock.address == 0
        return reads_input or thread.syscall in _SERVING or _takes_work(thread) or (
            thread.blocked_on is not None and thread.blocked_on.code == "waits-for-signal")

    def waits_outside(self, thread: Thread) -> bool:
        """Whether only something outside of the process ends the wait of a thread, which has no timeout."""
        if thread.waits is not None:
            lock = self.locks.get(thread.waits.lock)
            if lock is None or not lock.is_outside or thread.waits.timed:
                return False
            return not _ends_here(lock) or not any(
                _continues(other) for other in self.threads.values() if other is not thread)
        if thread.blocked_on is not None:
            return thread.blocked_on.code in FOR_CHILDREN | _OUTSIDE | _ON_GPU or _is_in_file_system(self, thread)
        return False


def _takes_work(thread: Thread) -> bool:
    """Whether a thread is the worker of a pool of processes and waits for its next call: not inside of one."""
    for frame in thread.stack:
        if isinstance(frame, PyFrame):
            if frame.function in _PROCESS_WORKERS and _PROCESS_POOLS.search(frame.file):
                return True
            if library_of(frame) is None:
                return False
    return False


def _time_left(thread: Thread) -> float | None:
    """How long the wait of a thread can still last, in seconds; None if it has no timeout, or that is not known."""
    return next((ender.seconds for ender in thread.ended_by if ender.what == "time"), None)


def _ends_here(lock: Lock) -> bool:
    """Whether only this process has the other end of a pipe or socket."""
    return any(why.code == "other-end-here" for why in parts(lock.why))


def _continues(thread: Thread) -> bool:
    """Whether a thread runs, or continues after a time."""
    left = _time_left(thread)
    if left is not None and left >= LONG:
        return False
    if thread.waits is not None:
        return thread.waits.timed
    return thread.status == "running" or thread.blocked_on is not None and thread.blocked_on.code in FOR_A_TIME


def _crash(scene: _Scene) -> Verdict | None:
    """A crash, unless the signal was sent: a program may have been stopped because it hung."""
    crash = scene.report.crash
    return _died(scene) if crash is not None and crash.fault.kind != "sent" else None


def _died(scene: _Scene) -> Verdict | None:
    """A crash, unless another process sent the signal: that says nothing about the program."""
    crash = scene.report.crash
    if crash is None or crash.fault.kind == "sent" and _sent_by_another(crash.fault, scene.report.target.pid):
        return None
    return Verdict("crash", (crash.thread,), evidence=crash.fault.evidence)


def _sent_by_another(fault: Fault, pid: int) -> bool:
    # the kernel records no sender from another PID namespace; a signal without a code was raised in a handler
    return fault.sender[0] != pid if fault.sender is not None else fault.code is not None


def _stopped(scene: _Scene) -> Verdict | None:
    """Something keeps the process from running, and no proof says that it would hang without that."""
    report = scene.report
    if report.target.stopped is None or report.task_cycles or report.greenlet_cycles or any(
            each.evidence != INFERRED and not each.standstill for each in report.deadlocks):
        return None
    return Verdict("stopped", evidence=RECORDED)


def _of_deadlocks(kind: VerdictKind, deadlocks: Iterable[Deadlock]) -> Verdict | None:
    found = list(deadlocks)
    if not found:
        return None
    threads = dict.fromkeys(number for deadlock in found for number in deadlock.threads)
    behind = dict.fromkeys(number for deadlock in found for number in deadlock.stuck_behind if number not in threads)
    return Verdict(kind, tuple(threads), tuple(behind), evidence=weakest([each.evidence for each in found]))


def _deadlock(scene: _Scene) -> Verdict | None:
    found = [each for each in scene.report.deadlocks if not each.standstill and not each.owner_gone]
    return _of_deadlocks("pool" if found and all(each.of_pool for each in found) else "deadlock", found)


def _task_cycle(scene: _Scene) -> Verdict | None:
    cycles = scene.report.task_cycles
    return Verdict("task-cycle", tasks=cycles[0], evidence=DERIVED) if cycles else None


def _greenlet_cycle(scene: _Scene) -> Verdict | None:
    cycles = scene.report.greenlet_cycles
    if not cycles:
        return None
    known = {each.address: each.waits for each in scene.report.greenlets}
    # what wakes a greenlet is recorded, and so is the greenlet whose end it waits for
    evidence = weakest([waits.evidence for address in cycles[0] if (waits := known.get(address)) is not None
                        and waits.evidence is not None])
    return Verdict("greenlet-cycle", greenlets=cycles[0], evidence=evidence)


def _orphaned_lock(scene: _Scene) -> Verdict | None:
    found = [each for each in scene.report.deadlocks if each.owner_gone]
    return _of_deadlocks("no-result" if found and all(each.no_result for each in found) else "orphaned-lock", found)


def _standstill(scene: _Scene) -> Verdict | None:
    found = _of_deadlocks("standstill", (each for each in scene.report.deadlocks if each.standstill))
    pool = _pool(scene) if found is not None else None
    # which says why all threads wait, and it is as certain
    return replace(pool, evidence=found.evidence) if found is not None and pool is not None else found


def _event_loop(scene: _Scene) -> Verdict | None:
    """A task runs in a thread that is blocked, so no other task of its loop can run."""
    for task in scene.report.tasks:
        thread = scene.threads.get(task.thread) if task.thread is not None else None
        if task.state != "running" or thread is None or thread.status != "blocked" or _is_requesting(scene, thread):
            continue
        if any(scene.threads[number].status == "running" for number in scene.holders(thread)
               if number in scene.threads):
            continue  # that thread will release the lock, so the call will end
        return Verdict("event-loop-blocked", (thread.number,), tuple(scene.behind(thread.number)),
                       (task.address, *_others(scene, task)))
    return None


def _others(scene: _Scene, running: Task) -> list[int]:
    return [task.address for task in scene.report.tasks
            if task.loop == running.loop and task.address != running.address and task.state == "pending"]


def _is_requesting(scene: _Scene, thread: Thread) -> bool:
    """Whether a thread only waits for its turn to run Python."""
    lock = scene.lock(thread)
    return lock is not None and lock.kind == GIL


def _blocked_behind(scene: _Scene) -> Verdict | None:
    """A thread with others behind it waits for something outside of the process, and no thread runs.

    Of several such threads, the one with most others behind it.
    """
    best: Verdict | None = None
    if not {*scene.running} <= {*scene.on_gpu}:
        return None
    for number, thread in scene.threads.items():
        if number not in scene.waiting or not (scene.waits_outside(thread) or _waits_for_event(scene, thread)):
            continue
        behind = scene.behind(number)
        if len(behind) <= (len(best.behind) if best is not None else 0):
            continue
        joined = all(_only_joins(scene, scene.threads[other]) for other in behind)
        if scene.waits_outside(thread) and not (joined and scene.is_served(thread)):
            kind: VerdictKind = "children" if _waits_for_children(scene, thread) else "blocked-behind"
        elif not joined:
            kind = "blocked-behind"
        else:
            continue
        best = Verdict(kind, (number,), tuple(behind))
    return best


def _held_up(scene: _Scene) -> Verdict | None:
    """A thread has a lock that others want, and it does not run: it sleeps, or waits for what may come.

    A lock that changes hands quickly is not meant. Of several such threads, the one with most others behind it.
    """
    best: Verdict | None = None
    for number, thread in scene.threads.items():
        wanted = [scene.threads[waiter] for waiter in scene.wanting.get(number, ())]
        if not wanted or thread.status == "running" or number in scene.on_gpu or scene.holders(thread):
            continue
        behind = scene.behind(number)
        if len(behind) > (len(best.behind) if best is not None else 0) and _is_slow(scene, thread, wanted):
            best = Verdict("blocked-behind", (number,), tuple(behind))
    return best


def _is_slow(scene: _Scene, holder: Thread, wanted: Iterable[Thread]) -> bool:
    """Whether a lock is held for so long that its holder's wait is the reason why others do not run."""
    left, reason = _time_left(holder), holder.blocked_on.code if holder.blocked_on is not None else None
    if left is not None and left >= _SOON or any(
            waiter.since is not None and waiter.since >= _SOON for waiter in wanted):
        return True
    if left is None and holder.status == "blocked" and scene.report.target.kind == "core":
        return True  # how long it was to sleep is not known, and nobody writes a core of a program that goes on
    if not _continues(holder):
        return not scene.running and (reason == "waits-for-signal" or scene.waits_outside(holder))
    if holder.polling is not None and any(_has_waited(scene, waiter) for waiter in wanted):
        return True
    # no thread needs the GIL to sleep
    return holder.waits is None and reason in FOR_A_TIME and any(_is_requesting(scene, waiter) for waiter in wanted)


def _in_kernel(scene: _Scene) -> Verdict | None:
    """Threads wait for a file system, a database or a name server, which answer at once as a rule."""
    if scene.running:
        return None
    found = [thread.number for thread in scene.report.threads
             if _is_in_file_system(scene, thread) or _looks_up_name(scene, thread)]
    if not found:
        return None
    behind = dict.fromkeys(other for number in found for other in scene.behind(number) if other not in found)
    return Verdict("blocked-behind", tuple(found), tuple(behind))


def _is_in_file_system(scene: _Scene, thread: Thread) -> bool:
    code = thread.blocked_on.code if thread.blocked_on is not None else None
    return code == _DATABASE or code in _FILE_SYSTEM and _has_waited(scene, thread)


def _looks_up_name(scene: _Scene, thread: Thread) -> bool:
    """Whether a thread waits in a function that looks up the address of a host."""
    lock = scene.locks.get(thread.waits.lock) if thread.waits is not None else None
    return lock is not None and lock.is_outside and _has_waited(scene, thread) and any(
        isinstance(frame, NativeFrame) and frame.function in _LOOKUPS for frame in thread.stack)


def _greenlets_behind(scene: _Scene) -> Verdict | None:
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


def _only_joins(scene: _Scene, thread: Thread) -> bool:
    """Whether a thread waits for the end of another, and not because its event loop is to end, too."""
    lock = scene.lock(thread)
    return lock is not None and kind_of(lock.kind).ends_thread and not any(
        isinstance(frame, PyFrame) and frame.function == _LOOP_ENDS and _LOOP.search(frame.file)
        for frame in thread.stack)


def _waits_for_event(scene: _Scene, thread: Thread) -> bool:
    lock = scene.lock(thread)
    return lock is not None and thread.waits is not None and not thread.waits.timed and lock.is_event


def _waits_for_children(scene: _Scene, thread: Thread) -> bool:
    """Whether a thread waits for a child process: in a system call, or for a pipe or socket that a child has too."""
    if thread.blocked_on is not None and thread.blocked_on.code in FOR_CHILDREN:
        return True
    lock = scene.locks.get(thread.waits.lock) if thread.waits is not None and not thread.waits.timed else None
    return lock is not None and lock.is_outside and any(
        name == "generation" and generation for process in find_reasons(lock.why, "process")
        for name, generation in process.arguments)


def _doubt(scene: _Scene) -> Verdict | None:
    return Verdict("unknown") if scene.report.no_verdict is not None else None


def _first_thread(scene: _Scene) -> Verdict | None:
    """The first thread waits for child processes, or for something else outside of the process."""
    first = scene.threads.get(scene.first)
    if first is None or scene.is_served(first) or scene.running or first.number in scene.on_gpu:
        return None
    if scene.waits_outside(first):
        return Verdict("children" if _waits_for_children(scene, first) else "blocked-behind", (first.number,))
    # other threads bring the results of child processes, unless they wait for the first thread themselves
    if (_waits_for_result(scene, first) and first.number not in scene.waiting
            and any(_waits_for_children(scene, thread) for thread in scene.report.threads)):
        return Verdict("children", (first.number,), evidence=INFERRED)
    return None


def _pool(scene: _Scene) -> Verdict | None:
    """All workers of the pools of threads wait for results, no thread is known to make one, and none runs."""
    workers = [thread for thread in scene.report.threads if any(
        isinstance(frame, PyFrame) and frame.function == _POOL_WORKER and _POOL.search(frame.file)
        for frame in thread.stack)]
    if not workers or scene.running or not all(
            _waits_for_result(scene, worker) and not scene.holders(worker) for worker in workers):
        return None
    others = [thread.number for thread in scene.report.threads
              if thread not in workers and _waits_for_result(scene, thread)]
    return Verdict("pool", tuple(worker.number for worker in workers), tuple(others))


def _waits_for_result(scene: _Scene, thread: Thread) -> bool:
    lock = scene.lock(thread)
    return lock is not None and thread.waits is not None and not thread.waits.timed and lock.state == RESULT_PENDING


def _result(scene: _Scene) -> Verdict | None:
    """Threads wait for room in a queue, for the end of its tasks, or for a result, and no thread runs."""
    if scene.running:
        return None
    goes_on = any(map(_continues, scene.report.threads))
    waiting = [(thread, lock) for thread in scene.report.threads
               if thread.waits is not None and not thread.waits.timed
               and (lock := scene.lock(thread)) is not None and lock.state in RESULT_STATES
               # where threads go on after a time, work that is done meanwhile ends such waits again and again
               and (thread.since is None or _has_waited(scene, thread) or not goes_on)]
    if not waiting:
        return None
    waiter, first = waiting[0]
    end = _end_of_results(scene, waiter)
    if end is not None:
        return Verdict("blocked-behind", (end,), tuple(scene.behind(end)))
    kind: VerdictKind = "blocked-behind" if first.state == RESULT_PENDING else "queue"
    return Verdict(kind, tuple(thread.number for thread, lock in waiting if lock.state == first.state))


def _end_of_results(scene: _Scene, waiter: Thread) -> int | None:
    """The last of the threads each of which makes the result that the one before waits for; None if there is none."""
    passed = [waiter.number]
    while _waits_for_result(scene, scene.threads[passed[-1]]):
        holders = scene.holders(scene.threads[passed[-1]])
        if len(holders) != 1 or holders[0] in passed or holders[0] not in scene.threads:
            break
        passed += holders
    return passed[-1] if len(passed) > 1 else None


def _unknown_holder(scene: _Scene) -> Verdict | None:
    """A thread waits for a locked lock whose holder is not known, and no thread runs that could release it."""
    if scene.running:
        return None
    numbers = []
    for thread in scene.report.threads:
        lock = scene.lock(thread)
        if (lock is not None and thread.waits is not None and not thread.waits.timed and lock.state != "free"
                and not lock.holders and not lock.is_event and not kind_of(lock.kind).passed_on
                and lock.state not in RESULT_STATES and not _takes_work(thread)):
            numbers.append(thread.number)
    return Verdict("unknown", tuple(numbers)) if numbers else None


def _unknown_greenlet(scene: _Scene) -> Verdict | None:
    """Greenlets wait for locks whose holders are not known, and no thread runs that could release them."""
    if scene.running:
        return None
    found = [each.address for each in scene.report.greenlets if each.waits is not None and each.waits.locked
             and not each.waits.timed and not each.waits.holders]
    return Verdict("unknown", greenlets=tuple(found)) if found else None


def _tasks_left(scene: _Scene) -> Verdict | None:
    """All tasks of an event loop wait for tasks or objects of asyncio, one of them for a lock, room or work to be done.

    Of the tasks, only new ones could change that, as of a server. A task that waits for an event or an item is at rest.
    """
    if scene.running:
        return None
    for loop in scene.report.event_loops:
        thread = scene.threads.get(loop.thread) if loop.thread is not None else None
        tasks = [task for task in scene.report.tasks if task.loop == loop.address
                 and task.state in ("running", "pending")]
        if thread is None or _continues(thread) or not tasks or not all(map(_waits_inside, tasks)):
            continue
        left = [task.address for task in tasks if _needs_work(task)]
        if left:
            return Verdict("blocked-behind", (thread.number,), tasks=(
                *left, *(task.address for task in tasks if task.address not in left)))
    return None


def _waits_inside(task: Task) -> bool:
    """Whether a task waits, without a timeout, for what other tasks have to do."""
    awaits = task.awaits
    return task.state == "pending" and not awaits.timed and not awaits.others and (
        bool(awaits.tasks) or (awaits.kind or "").removeprefix(_ASYNCIO) in _OBJECTS)


def _needs_work(task: Task) -> bool:
    """Whether a task waits for an object of asyncio that is no event: for a lock, for room, or for work to be done."""
    kind = (task.awaits.kind or "").removeprefix(_ASYNCIO)
    if kind in _QUEUES:
        return any(frame.function in _NEEDS_WORK and _QUEUE_FILE.search(frame.file) for frame in task.stack)
    return not task.awaits.tasks and kind in _OBJECTS and kind not in _EVENTS


def _left_waiting(scene: _Scene) -> Verdict | None:
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


def _is_left(scene: _Scene, thread: Thread) -> bool:
    """Whether a thread waits in the middle of work for any thread of the process to do something."""
    lock = scene.lock(thread)
    if (lock is None or thread.waits is None or thread.waits.timed or thread.at_work is None or lock.holders
            or not kind_of(lock.kind).own_threads_only or lock.shared or lock.orphan):
        return False
    kind = kind_of(lock.kind)
    if thread.number == scene.first and (kind.may_end_program or kind.ends_thread):
        return False
    return _has_waited(scene, thread) and not any(
        _continues(other) and (other.since is None or thread.since is None or other.since >= thread.since)
        for other in scene.report.threads if scene.report.target.kind == "live")


def _has_waited(scene: _Scene, thread: Thread) -> bool:
    """Whether a thread has waited for a while; in a core that is not known, and nobody writes one of what goes on."""
    return scene.report.target.kind == "core" or thread.since is not None and thread.since >= _A_WHILE


def _is_elsewhere(scene: _Scene, thread: Thread) -> bool:
    """Whether a thread waits for the world outside in the middle of work, and may do something afterwards."""
    return thread.at_work is not None and scene.waits_outside(thread) and not scene.is_served(thread)


def _polling(scene: _Scene) -> Verdict | None:
    """The only thread sleeps for a short time, again and again, until a condition holds."""
    (first, *others) = scene.report.threads or (None,)
    return Verdict("polling", (first.number,)) if first is not None and not others and first.polling else None


def _computing(scene: _Scene) -> Verdict | None:
    busy = {*scene.running, *scene.on_gpu}
    if not busy:
        return None
    order = sorted(busy, key=lambda number: (-len(scene.behind(number)), number))
    return Verdict("computing", tuple(order), tuple(scene.behind(order[0])))


def _unreadable(scene: _Scene) -> Verdict | None:
    unread = [thread.number for thread in scene.report.threads
              if thread.status == "unknown" and thread.waits is None
              # a worker that may have been blocked in a call has a reason to be there
              and (thread.blocked_on is None or thread.number == scene.first)]
    return Verdict("unknown", tuple(unread)) if unread or not scene.threads else None


_EXPLANATIONS: tuple[Callable[[_Scene], Verdict | None], ...] = (
    _crash, _stopped, _deadlock, _task_cycle, _greenlet_cycle, _orphaned_lock, _standstill, _died, _event_loop,
    _blocked_behind, _greenlets_behind, _doubt, _held_up, _in_kernel, _first_thread, _pool, _result, _tasks_left,
    _left_waiting, _unknown_holder, _unknown_greenlet, _polling, _computing, _unreadable)
