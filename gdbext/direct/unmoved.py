"""The report of a running process that is not stopped, made of reads that belong together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

from gdbext.direct.process import ProcessTarget, Way
from gdbext.direct.source_lines import SourceLines
from gdbext.errors import GdbextError, ThreadUnavailable
from gdbext.inferior.budget import Budget
from gdbext.model import Report
from gdbext.model.kinds import GIL
from gdbext.snapshot import take_snapshot

#: How often the process is read in each way until nothing has changed meanwhile.
_WITHOUT_IMAGE, _WITH_IMAGE, _HELD = 1, 5, 2
#: How long each attempt may take at least, in seconds.
_LEAST = 0.2


def read_unmoved(pid: int, may_stop: bool = True, object_names: bool = True, seconds: float = 30.0,
                 max_pause: float = 10.0) -> tuple[ProcessTarget, Report, GdbextError | None]:
    """Read a running process.

    If threads have run meanwhile, the pages that were read are read again at one moment when these threads sleep, or
    are stopped if they never do. If that fails, they are stopped until all is read, and at last all threads are. If
    threads must not be stopped, those that run are unreadable.

    :param may_stop: whether threads may be stopped for a moment.
    :param object_names: see `gdbext.snapshot.take_snapshot`.
    :param seconds: how long the process may be read.
    :param max_pause: how long threads may be stopped in all, in seconds; what is not read then is left out.
    :return: the process, which is closed, the report, and why that is incomplete, where the user can do something about
        it.
    :raises GdbextError: it cannot be read.
    :raises PermissionError: we may not read it.
    """
    moving, pages, paused, lines = set[int](), set[int](), 0.0, SourceLines()
    end = time.monotonic() + seconds
    for way in _ways(moving, pages, may_stop):
        left = max(end - time.monotonic(), _LEAST)
        budget = Budget(min(left, max(max_pause - paused, _LEAST)) if may_stop else left)
        target = ProcessTarget(pid, may_stop, way, lines)
        with contextlib.closing(target), target.stopped as stopped, budget:
            try:
                snapshot = take_snapshot(target, object_names, budget)
            except ThreadUnavailable:  # all of them run
                moving |= target.tasks.keys()
                pages |= target.pages
                continue
            report = snapshot.judged_report(lambda thread: True)
            moved = target.moved()
            moved -= _kept_waiting(target, report, moved)
        paused += stopped.seconds
        if not moved:
            report = target.add_lines(report)
            report = replace(report, target=replace(report.target, paused=round(paused, 3)))
            return target, report, snapshot.incomplete
        moving |= moved
        pages |= target.pages
    hint = "let GDB stop it: leave out --no-gdb" if may_stop else "let threads be stopped: leave out --no-stop"
    raise GdbextError(f"process {pid} changes faster than it can be read without GDB", hint)


def _ways(moving: set[int], pages: set[int], may_stop: bool) -> Iterator[Way]:
    """The ways to read a process, one after the other; both sets grow meanwhile."""
    for _ in range(_WITHOUT_IMAGE):
        yield Way()
    for _ in range(_WITH_IMAGE):
        yield Way(frozenset(moving), frozenset(pages))
    for _ in range(_HELD):
        yield Way(frozenset(moving), hold=True)
    if may_stop:
        yield Way(None, hold=True)


def _kept_waiting(target: ProcessTarget, report: Report, moved: set[int]) -> set[int]:
    """The threads among those that have moved that cannot have left the wait that the report shows.

    A thread that waits for the GIL wakes up every few milliseconds, and sleeps again if the GIL is still held. It was
    held all the time if its holder slept all the time.
    """
    tids = {thread.number: thread.lwp for thread in report.threads}
    slept = {lock.id for lock in report.locks if lock.kind == GIL and lock.holders
             and not moved & {tids[holder.thread] for holder in lock.holders}}
    return {thread.lwp for thread in report.threads if thread.lwp in moved and thread.waits is not None
            and thread.waits.lock in slept and target.waits_again(thread.lwp)}
