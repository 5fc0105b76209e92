"""A report as ``py-spy dump`` prints it, as text or JSON. Source: py-spy 0.4 src/dump.rs, src/stack_trace.rs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from gdbext.model import Frame, Local, PyFrame, Report, Thread
from gdbext.narrate.names import Facts
from gdbext.narrate.sentences import sentence, verdict_title
from gdbext.narrate.threads import doing, holdings
from gdbext.narrate.words import plain
from gdbext.render.escape import Safe, as_text, printable

#: Between the processes of a family.
SEPARATOR = "-" * 80
#: Longest text of JSON, in characters.
_LONGEST = 1_000


class PySpy:
    """One process or core.

    :param shorten: makes the file name that is shown of a path.
    :param native: whether native frames are listed.
    """

    def __init__(self, report: Report, shorten: Callable[[str], str], native: bool) -> None:
        self._facts = Facts(report)
        self._shorten = shorten
        self._native = native
        self._holders = {interpreter.gil.holder for runtime in report.runtimes for interpreter in runtime.interpreters}
        self._threads = [thread for thread in report.threads if thread.tstate is not None]

    def text(self, parent: str | None = None) -> Safe:
        """The text; if the program hangs, its last line is the verdict.

        :param parent: the process that has started it, if it is shown before.
        """
        report = self._facts.report
        target, lines = report.target, [self.name]
        lines += [f"Python v{runtime.version} ({printable(target.executable or '?')})"
                  for runtime in report.runtimes[:1]]
        lines += [f"Parent {parent}", ""] if parent is not None else [""]
        for thread in self._threads:
            name = f': "{printable(thread.python_name, 200)}"' if thread.python_name else ""
            lines.append(f"Thread {thread.lwp} ({self._status(thread)}){name}")
            for frame, variables in self._frames(thread):
                place = printable(self._shorten(_file(frame)), 300)
                lines.append(f"    {printable(_name(frame), 300)} ({place}{f':{frame.line}' if frame.line else ''})")
                lines += ["        Locals:"] if variables else []
                lines += [f"            {printable(each.name, 100)}: {printable(each.value)}" for each in variables]
        if self._facts.verdict.outcome in ("stuck", "outside"):
            said = printable(plain(sentence(self._facts)), _LONGEST)
            lines += ["", f"{verdict_title(self._facts.verdict)}: {said}"]
        return as_text(lines)

    @property
    def name(self) -> str:
        """The process with its command line."""
        target = self._facts.report.target
        return f"Process {target.pid}: {printable(target.command_line or target.executable or '?')}"

    def document(self) -> Safe:
        """The array of threads, the newest first. The member ``gdbext`` of each has what py-spy does not know."""
        return as_text(json.dumps([self._thread(thread) for thread in reversed(self._threads)], indent=2).split("\n"))

    def _thread(self, thread: Thread) -> dict[str, Any]:
        facts, frames = self._facts, list(self._frames(thread))
        return {
            "pid": facts.report.target.pid, "thread_id": thread.ident, "thread_name": thread.python_name,
            "os_thread_id": thread.lwp, "active": thread.status == "running",
            "owns_gil": thread.number in self._holders,
            "frames": [self._frame(thread, frame, variables) for frame, variables in frames],
            "process_info": None,
            "gdbext": {
                "verdict": facts.verdict.kind, "in_verdict": thread.number in facts.verdict.threads,
                "sentence": printable(plain(sentence(facts)), _LONGEST),
                "does": printable(plain(doing(facts, thread)), _LONGEST),
                "holds": [printable(plain(words), _LONGEST) for words in holdings(facts, thread)]}}

    def _frame(self, thread: Thread, frame: Frame, variables: tuple[Local, ...]) -> dict[str, Any]:
        is_python = isinstance(frame, PyFrame)
        return {
            "name": _name(frame), "filename": _file(frame), "module": getattr(frame, "module", None),
            "short_filename": self._shorten(_file(frame)), "line": frame.line or 0,
            "locals": [{"name": each.name, "addr": None, "arg": None, "repr": each.value, "type": each.type}
                       for each in variables] if thread.variables is not None and is_python else None,
            # which calls have left the interpreter's loop is not in a report
            "is_entry": None, "is_shim_entry": None}

    def _frames(self, thread: Thread) -> Iterator[tuple[Frame, tuple[Local, ...]]]:
        for index, frame in enumerate(thread.stack):
            if self._native or isinstance(frame, PyFrame):
                yield frame, thread.variables[index] if thread.variables is not None else ()

    def _status(self, thread: Thread) -> str:
        does = "active" if thread.status == "running" else "idle"
        return f"{does}+gil" if thread.number in self._holders else does


def _name(frame: Frame) -> str:
    return frame.qualified_name if isinstance(frame, PyFrame) else frame.function or f"{frame.pc:#x}"


def _file(frame: Frame) -> str:
    return frame.file if isinstance(frame, PyFrame) else frame.file or frame.module or "?"
