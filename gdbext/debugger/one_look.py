"""One snapshot of one process or core in a GDB that does nothing else; the launcher starts it and reads the answer.

The request is one JSON object; the answer is one on each line, by open files that the launcher hands over, so that
GDB's own output does not interfere:

    {"attached": 123.4}              it begins to attach; CLOCK_MONOTONIC, in seconds; null: it could not
    {"detached": 123.6}              the process runs again
    {"document": ..., "text": ...}   the report; or {"problem": ..., "hint": ...}

A process is paused from the first to the second line, and the whole report comes from this one stop.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from types import FrameType
from typing import Any

import gdb

from gdbext.debugger.console import execute, quoted
from gdbext.debugger.prefetch import Prefetch
from gdbext.debugger.settings import Settings
from gdbext.debugger.source import source_files
from gdbext.debugger.target import GdbTarget
from gdbext.errors import GdbextError
from gdbext.model import Problem, Report
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.record import record
from gdbext.render.crash import crash_page
from gdbext.render.dot import as_dot
from gdbext.render.escape import printable
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from gdbext.schema.write import document
from gdbext.snapshot import Snapshot, take_snapshot

_PARTS = ("runtimes", "threads", "locks", "deadlocks", "crash", "problems")
_INTERNAL = (AssertionError, AttributeError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError)
#: prctl(2): the signal that a process gets when its parent ends. Source: Linux 6.1 include/uapi/linux/prctl.h.
_PR_SET_PDEATHSIG = 1
#: After how long an interrupt is repeated, in seconds.
_AGAIN = 0.1


@record
class Request:
    """What the launcher wants; `parent` is its PID, `settings` are GDB commands to begin with."""

    parent: int
    pid: int | None
    core: str | None
    executable: str | None
    settings: list[str]
    each: bool
    stacks: str
    colour: bool
    width: int | None


class _Interrupted(BaseException):
    """The launcher wants no answer any more, or is gone."""


def main(request: int, answer: int) -> None:
    """Make the snapshot and answer; GDB ends afterwards.

    :param request: descriptor of a file with the request.
    :param answer: descriptor of a file for the answer.
    """
    _listen(True)
    with open(request, encoding="utf-8") as file:
        wanted = Request(**json.load(file))
    _end_with(wanted.parent)
    with open(answer, "w", encoding="utf-8") as file:
        look = _OneLook(wanted, lambda line: print(json.dumps(line), file=file, flush=True))
        try:
            look.answer()
        except _Interrupted:
            pass
        finally:
            _listen(False)


def _listen(wanted: bool) -> None:
    """Let SIGTERM end the snapshot, or not any more."""
    if not wanted:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, _interrupt if wanted else signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # GDB swallows what is raised while it calls Python of its own, as it does to unwind: then once more
    signal.setitimer(signal.ITIMER_REAL, _AGAIN)
    raise _Interrupted


def _end_with(parent: int) -> None:
    """End in good order when the launcher ends, however that happens."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        raise _Interrupted


class _OneLook:

    def __init__(self, request: Request, tell: Any) -> None:
        self._request = request
        self._tell = tell
        self._attached = False

    def answer(self) -> None:
        gc.disable()  # as in `Session`; GDB ends afterwards
        try:
            try:
                self._load()
                found = self._look()
            finally:
                self._detach()
            self._tell(found.answer(self._request))
        except GdbextError as error:
            self._tell({"problem": printable(str(error)), "hint": error.hint})
        except gdb.error as error:
            self._tell({"problem": f"GDB says: {printable(str(error))}", "hint": ""})
        except _INTERNAL as error:
            self._tell({"problem": f"internal error: {type(error).__name__}: {printable(str(error))}",
                        "hint": "please report it"})

    def _load(self) -> None:
        request = self._request
        for command in request.settings:
            try:
                execute(command)
            except gdb.error:  # a GDB that is too old for it has nothing to be switched
                continue
        if request.executable is not None:
            try:
                execute(f"file {quoted(request.executable)}")
            except gdb.error:  # whoever may not read that of a process may not attach to it either
                if request.pid is None:
                    raise
        if request.core is not None:
            execute(f"core-file {request.core}")
        if request.pid is not None:
            prefetch = Prefetch(request.pid)
            prefetch.read()
            self._tell({"attached": time.monotonic()})
            self._attached = True
            try:
                execute(f"attach {request.pid}")
            except gdb.error:
                self._tell({"attached": None})
                raise
            prefetch.check()

    def _detach(self) -> None:
        if not self._attached:
            return
        # from here on nothing but the end can keep the process from running
        _listen(False)
        try:
            execute("detach")
        except gdb.error:  # it has ended, or GDB never got hold of it
            pass
        self._tell({"detached": time.monotonic()})

    def _look(self) -> _Found:
        target = GdbTarget()
        snapshot = take_snapshot(target)
        # all of them: threads are grouped by their stacks, and the document has them
        report = snapshot.report(lambda thread: True)
        if target.kind == "core":
            report = self._with_crash(snapshot, report)
        return _Found(target, report, snapshot.incomplete)

    @staticmethod
    def _with_crash(snapshot: Snapshot, report: Report) -> Report:
        try:
            return replace(report, crash=snapshot.crash(report))
        except GdbextError:  # nobody died
            return report
        except (gdb.error, *_INTERNAL) as error:
            problem = Problem("crash", "unreadable", because("text", text=f"{type(error).__name__}: {error}"))
            return replace(report, problems=(*report.problems, problem))


@record
class _Found:
    """What the stop has shown; the process runs on while it is told."""

    target: GdbTarget
    report: Report
    incomplete: GdbextError | None

    def answer(self, request: Request) -> Mapping[str, Any]:
        report = self.report
        return {
            "document": document(report, _PARTS), "text": self._text(request), "dot": as_dot(report),
            "deadlocks": len(report.deadlocks), "crash": report.crash is not None,
            "no_verdict": None if report.no_verdict is None else explain(report.no_verdict),
            "incomplete": None if self.incomplete is None else str(self.incomplete),
            "hint": "" if self.incomplete is None else self.incomplete.hint,
        }

    def _text(self, request: Request) -> str:
        report, style = self.report, Style(request.colour, request.width)
        source = source_files(self.target, Settings())
        text = ""
        if report.crash is not None:
            # problems are told once, at the end
            crash = TextRenderer(replace(report, problems=(), notes=()), style, source)
            text = crash_page(crash, report.crash) + "\n"
        text += TextRenderer(report, style, source).threads(None, request.each, request.stacks)
        return style.wrap(text + "".join(f"Note: {note}\n" for note in source.notes()))
