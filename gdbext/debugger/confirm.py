"""Two snapshots of a live process, which runs undisturbed in between."""

from __future__ import annotations

import time
from collections.abc import Sequence

import gdb

from gdbext.debugger.before_pause import before_pause, read_before_pause
from gdbext.debugger.console import execute, interrupts_blocked
from gdbext.debugger.settings import settings
from gdbext.debugger.target import GdbTarget, session
from gdbext.errors import GdbextError, UsageError
from gdbext.inferior.proc.status import status_fields
from gdbext.model import Report
from gdbext.snapshot import take_snapshot
from gdbext.verdict.confirm import sleepers, what_stayed

#: The time in which a process that runs again returns to the system calls that the stop interrupted, in seconds.
_SETTLING = 0.1


def take_two_snapshots(seconds: float) -> tuple[Report, float]:
    """Take a snapshot, let the process run, take another one, and keep the deadlocks that are in both.

    GDB detaches in between: the process gets no signal, and no part of it is stopped. If anything fails, Ctrl-C
    included, it continues without GDB.

    :param seconds: how long the process runs between the snapshots.
    :return: the report of the second snapshot without the other deadlocks, and for how many seconds the process was
        paused in all.
    :raises GdbextError: there is no process that GDB can detach from and attach to again.
    """
    started = time.monotonic()
    with session() as target:
        pid = target.pid
        if target.kind != "live":
            raise UsageError("--confirm needs a live process", "run the command without --confirm on a core")
        if target.proc is None or not gdb.selected_inferior().was_attached:
            raise UsageError("--confirm detaches from the process for a moment, so GDB must have attached to it",
                             "run the command without --confirm")
        first = _report(target)
    selected: gdb.InferiorThread | None = gdb.selected_thread()
    lwp = selected.ptid[1] if selected is not None else 0
    execute("detach")
    paused = time.monotonic() - started
    watched = sleepers(first)
    try:
        time.sleep(min(_SETTLING, seconds))
        before = [_switches(pid, thread) for thread in watched]
        time.sleep(max(seconds - _SETTLING, 0.0))
        after = [_switches(pid, thread) for thread in watched]
    except KeyboardInterrupt:
        raise GdbextError("interrupted between the two snapshots",
                          f"the process continues to run; `attach {pid}` attaches to it again") from None
    moved = {thread for thread, then, now in zip(watched, before, after) if then is None or then != now}
    before_attaching = read_before_pause(pid)
    started = time.monotonic()
    try:
        with interrupts_blocked():
            execute(f"{_without_notification()}attach {pid}")
    except gdb.error as error:
        raise GdbextError(f"cannot attach to the process again: {error}",
                          "it may have ended; otherwise attach to it yourself") from None
    before_pause.keep(before_attaching)
    for thread in gdb.selected_inferior().threads():
        if thread.is_valid() and thread.ptid[1] == lwp:
            thread.switch()
    with session() as target:
        second = _report(target)
    return what_stayed(first, second, moved), paused + time.monotonic() - started


def _report(target: GdbTarget) -> Report:
    snapshot = take_snapshot(target, settings().object_names, target.budget, target.known_code)
    return snapshot.report(lambda thread: False)


def _without_notification() -> str:
    """Return a prefix for a command that keeps GDB from printing where the process stopped (GDB 12 and later)."""
    try:
        gdb.parameter("suppress-cli-notifications")
    except RuntimeError:
        return ""
    return "with suppress-cli-notifications on -- "


def _switches(pid: int, lwp: int) -> Sequence[str] | None:
    """Read how often the kernel has switched to and from a thread; None if the thread has ended."""
    fields = status_fields(f"{pid}/task/{lwp}")
    return [value for name, value in fields.items() if name.endswith("voluntary_ctxt_switches")] or None
