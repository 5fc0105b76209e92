"""The report of a running process that is not stopped, made of reads that belong together."""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import replace

from gdbext.commands.report_options import DEFAULTS, ReportOptions
from gdbext.errors import GdbextError, ThreadUnavailable
from gdbext.inferior.budget import Budget
from gdbext.model import Problem, Report
from gdbext.model.kinds import DESCRIPTOR, FILE_LOCK, GIL
from gdbext.model.reasons import because
from gdbext.proofs.known_code import KnownCode
from gdbext.snapshot import take_snapshot
from gdbext.targets.process import Changes, ProcessTarget, Way
from gdbext.targets.source_lines import SourceLines
from gdbext.targets.stopping import StoppedThreads

#: How often the process is read with an image before threads that sleep now and then are stopped.
_WITH_IMAGE = 3
#: How often the process is read without the threads that run, if none may be stopped.
_WITHOUT_STOPS = 4
#: How often it is read while all threads that move are stopped: each time, more are known to move.
_WITH_EVERYONE = 4
#: How long each attempt may take at least, in seconds.
_LEAST = 0.2


def read_unmoved(pid: int, options: ReportOptions = DEFAULTS, seconds: float = 30.0,
                 wanted: Sequence[int] = ()) -> tuple[ProcessTarget, Report, GdbextError | None]:
    """Read a running process, several times if what is read does not belong together.

    The pages that changed meanwhile are then read at one moment when the threads that run sleep, or are stopped if they
    never do; all pages are if these threads have to do with locks that others wait for. If that fails, these threads
    are stopped while the pages are read, then until all is read, and at last all threads are. No thread that sleeps is
    stopped in a system call that a stop would end, and of no thread a stop ends more than one. If threads must not be
    stopped, those that run are unreadable.

    :param seconds: how long the process may be read; what is not read in `max_pause` is left out.
    :param wanted: the addresses of locks that the report has although no thread may wait for them.
    :return: the process, which is closed, the report, and why that is incomplete, where the user can do something about
        it.
    :raises GdbextError: it cannot be read.
    :raises PermissionError: we may not read it.
    """
    moving, pages, stops = set[int](), set[int](), list[StoppedThreads]()
    lines, known_code = SourceLines(), KnownCode()
    end = time.monotonic() + seconds
    for way in _ways(moving, pages, stops, options.may_stop):
        left = max(end - time.monotonic(), _LEAST)
        budget = Budget(min(left, max(options.max_pause - _total(stops), _LEAST)) if way.hold else left)
        target = ProcessTarget(pid, options.may_stop, way, lines)
        stops.append(target.stopped)
        with contextlib.closing(target), target.stopped, budget:
            if (way.image or way.stop) and not target.has_image:
                continue
            known_code.postpones = way.hold and not way.everyone
            try:
                snapshot = take_snapshot(target, options.object_names, budget, known_code)
            except ThreadUnavailable:  # all of them run
                moving |= target.tasks.keys()
                pages |= target.pages
                continue
            report = snapshot.judged_report(lambda thread: True, wanted)
            if options.locals:
                report = snapshot.with_variables(report)
            if known_code.is_behind:
                target.stopped.resume()
                known_code.catch_up()
                continue
            changes = target.changes()
            changes = _without(changes, _kept_waiting(target, report, changes))
            left_out = _not_listed(report, changes) if way.hold and not options.may_stop else frozenset[int]()
            changes = replace(changes, moved=changes.moved - left_out)
            is_apart = (not target.is_whole and _take_part(report, target.imaged & changes.ran)
                        or _wait_for_files(report, target.imaged))
        if not changes.moved and not changes.pages and not is_apart:
            report = _without_threads(snapshot.with_lines(report, target.add_lines), len(left_out))
            # a stop of less than a millisecond is a stop, too
            paused = math.ceil(_total(stops) * 1000) / 1000
            report = replace(report, target=replace(report.target, paused=paused))
            return target, report, snapshot.incomplete
        moving |= changes.ran
        # all pages can hardly be read together if there are many, and threads run often
        pages |= target.pages if pages or _take_part(report, changes.ran) else changes.pages
        del snapshot, report
        gc.collect()  # what a snapshot consists of refers to each other
    hint = "let GDB stop it: --gdb gdb" if options.may_stop else "let threads be stopped: leave out --no-stop"
    raise GdbextError(f"process {pid} changes faster than it can be read without GDB", hint)


def _total(stops: Iterable[StoppedThreads]) -> float:
    return sum(stop.seconds for stop in stops)


def _ways(moving: set[int], pages: set[int], stops: Sequence[StoppedThreads], may_stop: bool) -> Iterator[Way]:
    """The ways to read a process, one after the other; the collections grow meanwhile."""
    def way(image: Iterable[int] = (), **how: bool) -> Way:
        ended = frozenset().union(*(stop.ended for stop in stops))
        return Way(frozenset(moving), frozenset(image), ended=ended, **how)

    yield way()
    for _ in range(_WITH_IMAGE):
        yield way(pages)
    if may_stop:
        yield way(pages, stop=True)
    # without stops, more threads are found to run each time
    for _ in range(1 if may_stop else _WITHOUT_STOPS):
        yield way(hold=True)
    # a thread in a call that a stop would end is stopped only once it is known to move
    for _ in range(_WITH_EVERYONE if may_stop else 1):
        yield way(hold=True, everyone=True)


def _not_listed(report: Report, changes: Changes) -> frozenset[int]:
    """The threads that have begun or ended and that a report may leave out: nothing in it is about them."""
    return frozenset() if _take_part(report, changes.came_or_went) else changes.came_or_went


def _without_threads(report: Report, count: int) -> Report:
    """The report with the doubt that so many threads began or ended while the process was read."""
    if not count:
        return report
    why = because("threads-came-or-went", count=count)
    return replace(report, no_verdict=report.no_verdict or why,
                   problems=(*report.problems, Problem("threads", "unreadable", why)))


def _take_part(report: Report, tids: Collection[int]) -> bool:
    """Whether threads wait, or may hold what others wait for.

    Their part in a report is that of another moment than what the others have read.
    """
    numbers = {thread.number for thread in report.threads if thread.lwp in tids}
    waited_for = {thread.waits.lock for thread in report.threads if thread.waits is not None}
    return (any(thread.waits is not None for thread in report.threads if thread.number in numbers)
            or any(not numbers.isdisjoint((*lock.candidates, *(holder.thread for holder in lock.holders)))
                   for lock in report.locks if lock.id in waited_for))


def _wait_for_files(report: Report, tids: Collection[int]) -> bool:
    """Whether threads wait for things that were read at a later moment than the image.

    These are locks on files, and in a standstill the contents of pipes and sockets.
    """
    numbers = {thread.number for thread in report.threads if thread.lwp in tids}
    still = {number for deadlock in report.deadlocks if deadlock.standstill for number in deadlock.threads}
    return any((lock.kind == FILE_LOCK or lock.kind == DESCRIPTOR and waiter.thread in still)
               and waiter.thread in numbers for lock in report.locks for waiter in lock.waiters)


def _kept_waiting(target: ProcessTarget, report: Report, changes: Changes) -> set[int]:
    """The threads that have run but cannot have left the wait that the report shows.

    A thread that waits for the GIL wakes up every few milliseconds, and sleeps again if the GIL is still held. It was
    held all the time if its holder slept all the time.
    """
    tids = {thread.number: thread.lwp for thread in report.threads}
    slept = {lock.id for lock in report.locks if lock.kind == GIL and lock.holders
             and changes.ran.isdisjoint(tids[holder.thread] for holder in lock.holders)}
    return {thread.lwp for thread in report.threads if thread.lwp in changes.ran and thread.waits is not None
            and thread.waits.lock in slept and target.waits_again(thread.lwp)}


def _without(changes: Changes, tids: Set[int]) -> Changes:
    """The changes if these threads count as if they had slept."""
    ran = changes.ran - tids
    return replace(changes, ran=ran, moved=changes.moved - tids, pages=changes.pages if ran else frozenset())
