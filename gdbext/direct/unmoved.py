"""The report of a running process that is not stopped, made of reads that belong together."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from gdbext.direct.process import ProcessTarget
from gdbext.errors import GdbextError
from gdbext.model import Report
from gdbext.model.kinds import GIL
from gdbext.snapshot import take_snapshot

#: How often the process is read until nothing has changed meanwhile.
_TRIES = 4


def read_unmoved(pid: int, may_stop: bool = True,
                 object_names: bool = True) -> tuple[ProcessTarget, Report, GdbextError | None]:
    """Read a running process.

    The threads that have run meanwhile are stopped before the process is read again; at last all are. If threads must
    not be stopped, those that have run are unreadable.

    :param may_stop: whether threads may be stopped for a moment.
    :param object_names: see `gdbext.snapshot.take_snapshot`.
    :return: the process, which is closed, the report, and why that is incomplete, where the user can do something about
        it.
    :raises GdbextError: it cannot be read.
    :raises PermissionError: we may not read it.
    """
    moving: set[int] | None = set()
    paused = 0.0
    for attempt in range(_TRIES):
        target = ProcessTarget(pid, may_stop, moving)
        with contextlib.closing(target), target.stopped as stopped:
            snapshot = take_snapshot(target, object_names)
            report = snapshot.judged_report(lambda thread: True)
            moved = target.moved()
            moved -= _kept_waiting(target, report, moved)
        paused += stopped.seconds
        if not moved:
            report = replace(report, target=replace(report.target, paused=round(paused, 3)))
            return target, report, snapshot.incomplete
        is_last = attempt == _TRIES - 2
        moving = None if moving is None or is_last and may_stop else {*moving, *moved}
    raise GdbextError(f"process {pid} changes faster than it can be read without GDB",
                      "let GDB stop it: leave out --no-gdb and --no-stop")


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
