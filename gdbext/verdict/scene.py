"""What explanations need of a report: which thread waits for which, what goes on, and what waits outside."""

from __future__ import annotations

import functools

from gdbext.model import LONG, RESULT_PENDING, TO_READ, TO_STORE, Lock, Operation, PyFrame, Report, Thread
from gdbext.model.frames import library_of
from gdbext.model.kinds import GIL, kind_of
from gdbext.model.reasons import NAMED_PIPE, REQUESTS, find_reasons, owes_answer, parts
from gdbext.model.standard_library import role_of
from gdbext.verdict.ended_by import FOR_A_TIME, FOR_CHILDREN

#: Other waits of a thread that only an event outside of the process ends.
_OUTSIDE = frozenset((
    "waits-for-aio", "waits-for-message", "waits-for-room", "waits-for-semaphores", "opens", "wrote-a-part"))
#: Waits for a file system, which have no timeout.
_FILE_SYSTEM = frozenset(("waits-for-file-system", "opens"))
#: After how long an operation of a job is one that others do not take part in, in seconds.
_LONG_OPERATION = 10.0
#: A wait for a database, which is described only once it has lasted.
_DATABASE = "waits-for-database"
#: Waits for the GPU, also of a thread that runs in a loop meanwhile.
_ON_GPU = frozenset(("waits-for-gpu", "waits-in-cuda"))
#: System calls with which event loops and servers wait for work.
_SERVING = frozenset(("epoll_wait", "epoll_pwait", "epoll_pwait2", "accept", "accept4", "io_uring_enter"))
#: A thread that ran in this time before the snapshot may run again soon, in seconds.
JUST_NOW = 0.1
#: How long a thread waits at least until what others do counts as not enough, in seconds.
_A_WHILE = 1.0


class Scene:
    """A report with what several explanations need."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.threads = {thread.number: thread for thread in report.threads}
        self.locks = {lock.id: lock for lock in report.locks}
        self.first = min(self.threads, default=0)
        self.running = [thread.number for thread in report.threads if thread.status == "running"]
        self.offloaded = [thread.number for thread in report.threads
                          if thread.blocked_on is not None and thread.blocked_on.code in _ON_GPU]

    def lock(self, thread: Thread) -> Lock | None:
        """The lock inside of the process that a thread waits for."""
        lock = self.locks.get(thread.waits.lock) if thread.waits is not None else None
        return None if lock is None or lock.is_outside else lock

    def holders(self, thread: Thread) -> list[int]:
        """The other threads that hold the lock that a thread waits for; none if a timeout ends the wait."""
        lock = self.lock(thread)
        if lock is None or is_timed(thread):
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
            and not self.only_joins(self.threads[waiter]) and not kind_of(lock.kind).is_event])}

    @functools.cached_property
    def continuing(self) -> set[int]:
        """The threads that run, continue after a time, or wait only for locks of such threads."""
        found = {thread.number for thread in self.threads.values() if continues(thread)}
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
        reads_input = lock is not None and kind_of(lock.kind).behaviour == "outside" and lock.address == 0
        # a wait for the answer of one peer is not a service if a library was called for it, nor is one for a child
        asks = lock is not None and (thread.at_work is not None and owes_answer(lock.why) or any(
            why.code == "watches-pipes-only" for why in parts(lock.why)) and any(
            generation > 0 for generation in _generations(lock)))
        takes_requests = lock is not None and lock.state == TO_READ and any(
            why.code == REQUESTS or why.code == NAMED_PIPE and thread.in_loop is not None for why in parts(lock.why))
        return reads_input or takes_requests or thread.syscall in _SERVING and not asks or takes_work(thread) or (
            thread.blocked_on is not None and thread.blocked_on.code == "waits-for-signal")

    def takes_next(self, thread: Thread) -> bool:
        """Whether a thread takes the next message of an ancestor of its process, in a loop of the program."""
        lock = self.locks.get(thread.waits.lock) if thread.waits is not None else None
        generations = _generations(lock) if lock is not None and lock.state == TO_READ else []
        return thread.in_loop is not None and any(generation < 0 for generation in generations) and not any(
            generation > 0 for generation in generations)

    def waits_outside(self, thread: Thread) -> bool:
        """Whether only something outside of the process ends the wait of a thread, and no timeout does."""
        if thread.waits is not None:
            lock = self.locks.get(thread.waits.lock)
            if lock is None or not lock.is_outside or is_timed(thread) or self.is_on_disk(thread):
                return False
            return not _ends_here(lock) or not any(
                continues(other) for other in self.threads.values() if other is not thread)
        if thread.blocked_on is not None:
            return thread.blocked_on.code in FOR_CHILDREN | _OUTSIDE | _ON_GPU or self.is_in_file_system(thread)
        return False

    def only_joins(self, thread: Thread) -> bool:
        """Whether a thread waits for the end of another, and not because its event loop is to end, too."""
        lock = self.lock(thread)
        return lock is not None and kind_of(lock.kind).behaviour == "thread-end" and not any(
            isinstance(frame, PyFrame) and role_of(frame) == "waits-for-calls"
            for frame in thread.stack)

    def waits_for_event(self, thread: Thread) -> bool:
        """Whether a thread waits for an event, without a timeout."""
        lock = self.lock(thread)
        return lock is not None and thread.waits is not None and not thread.waits.timed and lock.is_event

    def waits_for_children(self, thread: Thread) -> bool:
        """Whether a thread waits for a child process: in a system call, or for a descriptor that a child has too."""
        if thread.blocked_on is not None and thread.blocked_on.code in FOR_CHILDREN:
            return True
        lock = self.locks.get(thread.waits.lock) if thread.waits is not None and not thread.waits.timed else None
        return lock is not None and lock.is_outside and any(
            generation > 0 for generation in _generations(lock))

    def waits_inside(self, number: int) -> bool:
        """Whether a thread waits, without a timeout, for what only threads of this process do."""
        thread = self.threads[number]
        lock = self.lock(thread)
        return lock is not None and not is_timed(thread) and not lock.shared and kind_of(lock.kind).own_threads_only

    def awaits_ranks(self, thread: Thread) -> bool:
        """Whether a thread waits for an operation in which other ranks of a job take part."""
        lock = self.locks.get(thread.waits.lock) if thread.waits is not None else None
        return lock is not None and kind_of(lock.kind).of_ranks

    def overdue(self) -> Operation | None:
        """The operation that the process has called with other ranks of a job, and that has not ended for long."""
        rank, now = self.report.rank, self.report.target.time
        return next((each for group in (rank.groups if rank is not None else ()) for each in group.pending
                     if each.begun is not None and now is not None and now - each.begun >= _LONG_OPERATION), None)

    def waits_for_result(self, thread: Thread) -> bool:
        """Whether a thread waits for a result, without a timeout."""
        lock = self.lock(thread)
        return (lock is not None and lock.state == RESULT_PENDING
                and thread.waits is not None and not thread.waits.timed)

    def has_waited(self, thread: Thread) -> bool:
        """Whether a thread has waited for a while: not known in a core, but nobody writes one of what goes on."""
        return self.report.target.kind == "core" or thread.since is not None and thread.since >= _A_WHILE

    def is_in_file_system(self, thread: Thread) -> bool:
        """Whether a thread waits for a file system or a database, which answer at once as a rule."""
        code = thread.blocked_on.code if thread.blocked_on is not None else None
        lock = self.lock(thread)
        is_database = code == _DATABASE or lock is not None and lock.kind != GIL and (
            kind_of(lock.kind).waiters == "wake")
        if is_database and any(map(self._uses_files, self.threads.values())):
            return False  # a transaction of this process goes on
        if lock is not None and is_database:
            return not lock.holders
        return is_database or code in _FILE_SYSTEM and self.has_waited(thread)

    def is_on_disk(self, thread: Thread) -> bool:
        """Whether a thread has just begun to wait until the disk has stored its data."""
        lock = self.locks.get(thread.waits.lock) if thread.waits is not None else None
        return lock is not None and lock.state == TO_STORE and not self.has_waited(thread)

    def _uses_files(self, thread: Thread) -> bool:
        """Whether a thread that has just run is in a system call on a file."""
        code = thread.blocked_on.code if thread.blocked_on is not None else None
        return thread.since is not None and thread.since < JUST_NOW and self.lock(thread) is None and (
            code != _DATABASE and code not in FOR_A_TIME)

    def is_requesting(self, thread: Thread) -> bool:
        """Whether a thread only waits for its turn to run Python."""
        lock = self.lock(thread)
        return lock is not None and lock.kind == GIL


def takes_work(thread: Thread) -> bool:
    """Whether a thread of a process that serves another one, as a pool's worker, waits for its next request."""
    for frame in thread.stack:
        if isinstance(frame, PyFrame):
            if role_of(frame) in ("process-worker", "takes-requests", "worker"):
                return True
            if library_of(frame) is None:
                return False
    return False


def time_left(thread: Thread) -> float | None:
    """How long the wait of a thread can still last, in seconds; None if it has no timeout, or that is not known."""
    return next((ender.seconds for ender in thread.ended_by if ender.what == "time"), None)


def is_timed(thread: Thread) -> bool:
    """Whether a timeout ends a thread's wait for a lock; one of an hour or more does not count."""
    left = time_left(thread)
    return thread.waits is not None and thread.waits.timed and (left is None or left < LONG)


def continues(thread: Thread) -> bool:
    """Whether a thread runs, or continues after a time."""
    left = time_left(thread)
    if left is not None and left >= LONG:
        return False
    if thread.waits is not None:
        return is_timed(thread)
    return thread.status == "running" or thread.blocked_on is not None and thread.blocked_on.code in FOR_A_TIME


def _generations(lock: Lock) -> list[int]:
    """The generations of those relatives of the process that have the other end of a pipe or socket."""
    return [generation for process in find_reasons(lock.why, "process")
            for name, generation in process.arguments if name == "generation" and isinstance(generation, int)]


def _ends_here(lock: Lock) -> bool:
    """Whether only this process has the other end of a pipe or socket."""
    return any(why.code == "other-end-here" for why in parts(lock.why))
