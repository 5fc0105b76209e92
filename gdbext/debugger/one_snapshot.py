"""One snapshot of one process or core, in a GDB that the launcher starts for this purpose.

The launcher passes open files for the request, one JSON object, and for the answer, one JSON object per line. So GDB's
own output does not interfere:

    {"attached": 123.4}              GDB begins to attach; CLOCK_MONOTONIC, in seconds; null: attaching failed
    {"detached": 123.6}              the process runs again
    {"document": ..., "text": ...}   the report; or {"problem": ..., "hint": ...}

The process is paused between the first and the second line, and the whole report describes this one stop.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FrameType
from typing import Any

import gdb

from gdbext.commands import answer
from gdbext.debugger.before_pause import before_pause, read_before_pause
from gdbext.debugger.console import execute, quoted
from gdbext.debugger.prefetch import Prefetch
from gdbext.debugger.settings import Settings
from gdbext.debugger.source import source_files
from gdbext.debugger.target import GdbTarget
from gdbext.errors import INTERNAL, GdbextError
from gdbext.inferior.budget import Budget
from gdbext.model import Report
from gdbext.record import compile_records, record
from gdbext.render.escape import printable
from gdbext.render.style import Style
from gdbext.snapshot import take_snapshot

#: prctl(2): the signal that a process gets when its parent ends. Source: Linux 6.1 include/uapi/linux/prctl.h.
_PR_SET_PDEATHSIG = 1
#: The interval at which an interrupt is repeated, in seconds.
_AGAIN = 0.1
#: How long a process is read at least, if attaching took long, and how long after its time a snapshot may take to end,
#: in seconds.
_LEAST, _GRACE = 1.0, 5.0


@record
class Request:
    """The launcher's request. `parent` is its PID, `settings` are GDB commands to begin with.

    `object_names` says whether the objects that have locks are named by values of their attributes, `withhold_values`
    whether the values of variables are left out because the target belongs to another user. `paused_before` is how long
    threads were stopped before GDB starts, `max_pause` how long a process may be paused in all, and `seconds` how long
    a core may be read, all in seconds. With `text_only` the answer has neither a document nor a graph.
    """

    parent: int
    pid: int | None
    core: str | None
    executable: str | None
    settings: list[str]
    each: bool
    stacks: str
    colour: bool
    width: int | None
    object_names: bool
    paused_before: float
    max_pause: float
    seconds: float
    withhold_values: bool = False
    text_only: bool = False


_Send = Callable[[Mapping[str, Any]], None]


class _Interrupted(BaseException):
    """The launcher no longer wants an answer, or has ended; or the time is over."""


def main(request: int, reply: int) -> None:
    """Take the snapshot and write the answer; GDB ends afterwards.

    :param request: descriptor of the file with the request.
    :param reply: descriptor of the file for the answer.
    """
    _set_interrupts(True)
    with open(request, encoding="utf-8") as file:
        wanted = Request(**json.load(file))
    # end in good order when the launcher ends, even if it is killed
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != wanted.parent:  # it has ended before
        raise _Interrupted
    with open(reply, "w", encoding="utf-8") as file:
        try:
            _answer(wanted, lambda line: answer.write_answer(line, file))
        except _Interrupted:
            answer.write_answer({"problem": "the process was resumed before it was read: the time was over",
                                 "hint": "give it more time: --max-pause SECONDS"}, file)
        finally:
            _set_interrupts(False)


def _set_interrupts(enabled: bool) -> None:
    """Have SIGTERM interrupt the snapshot, or ignore it."""
    if not enabled:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, _interrupt if enabled else signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # repeated, since GDB drops exceptions of Python code that it calls itself, as it does to unwind
    signal.setitimer(signal.ITIMER_REAL, _AGAIN)
    raise _Interrupted


def _answer(request: Request, send: _Send) -> None:
    gc.disable()  # as in `target.session`; GDB ends afterwards
    try:
        _load(request)
        found = _take(request, request.seconds) if request.pid is None else _take_attached(request, request.pid, send)
        send(_reply(request, *found))  # the process runs on while the text is written
    except GdbextError as error:
        send({"problem": printable(str(error)), "hint": error.hint})
    except gdb.error as error:
        send({"problem": f"GDB says: {printable(str(error))}", "hint": ""})
    except INTERNAL as error:
        send({"problem": f"internal error: {type(error).__name__}: {printable(str(error))}",
              "hint": "please report it"})


def _load(request: Request) -> None:
    for command in request.settings:
        try:
            execute(command)
        except gdb.error:  # a GDB without a setting has nothing to switch
            continue
    if request.executable is not None:
        try:
            execute(f"file {quoted(request.executable)}")
        except gdb.error:  # a user who may not read a process's executable may not attach either
            if request.pid is None:
                raise
    if request.core is not None:
        execute(f"core-file {request.core}")


def _take(request: Request, seconds: float) -> tuple[GdbTarget, Report, GdbextError | None]:
    target = GdbTarget()
    with Budget(seconds) as budget:
        snapshot = take_snapshot(target, request.object_names, budget)
        # the stacks of all threads, since the document has them and equal ones are grouped
        report = snapshot.judged_report(lambda thread: True)
        if target.kind == "core":
            report = snapshot.with_crash(report)
    return target, report, snapshot.incomplete


def _take_attached(request: Request, pid: int, send: _Send) -> tuple[GdbTarget, Report, GdbextError | None]:
    prefetch = Prefetch(pid)
    prefetch.read()
    compile_records()
    before = read_before_pause(pid)  # last, since the threads run on
    attached = time.monotonic()
    send({"attached": attached})
    try:
        try:
            # no handler runs while GDB itself is busy; if the signal ends GDB, the kernel detaches
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, max(request.max_pause - request.paused_before, _LEAST))
            execute(f"attach {pid}")
            _set_interrupts(True)
        except gdb.error:
            send({"attached": None})
            raise
        before_pause.keep(before)
        prefetch.check()
        # if something does not draw from the budget, the process is resumed without a report
        left = max(request.max_pause - request.paused_before - (time.monotonic() - attached), _LEAST)
        signal.setitimer(signal.ITIMER_REAL, left + _GRACE)
        target, report, incomplete = _take(request, left)
    finally:
        _set_interrupts(False)  # nothing but the end of GDB may come before the detach
        try:
            execute("detach")
        except gdb.error:  # the process has ended, or GDB did not attach
            pass
        detached = time.monotonic()
        send({"detached": detached})
    info = replace(report.target, paused=round(detached - attached + request.paused_before, 3))
    return target, replace(report, target=info), incomplete


def _reply(request: Request, target: GdbTarget, report: Report, incomplete: GdbextError | None) -> dict[str, Any]:
    if request.withhold_values:
        report = answer.withhold_values(report)
    return answer.answer(report, incomplete, source_files(target, Settings()), Style(request.colour, request.width),
                         request.each, request.stacks, request.text_only)
