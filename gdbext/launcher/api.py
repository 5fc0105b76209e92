"""What programs use after ``import gdbext``: `report`, `Report`, `install_signal`, `install_watchdog`."""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import gdbext.model
from gdbext.errors import BadDocument
from gdbext.launcher.snapshots.options import DEFAULTS, Options, Target
from gdbext.launcher.snapshots.snapshot import Snapshot, take_snapshot
from gdbext.launcher.status import status_of
from gdbext.model.verdict import Verdict
from gdbext.render.escape import NOTHING, Safe
from gdbext.render.shown import Shown
from gdbext.schema.read import read_document
from gdbext.schema.write import document_text
from gdbext.verdict.judge import verdict_of

#: Verdicts that say little, so that other processes may say more.
_WEAK = frozenset(("job", "children", "blocked-behind", "queue", "idle", "unknown"))


class Report:
    """A report on a process or core; ``str(report)`` is its text. One from JSON has a text without source lines.

    :ivar problem: why the report lacks a part, or the verdict is not known; None if it has all.
    :ivar hint: what to do about that; None if there is nothing.
    :ivar paused: how long the process was paused, in seconds; None for a core, and if that is not known.
    :ivar notes: which files were used instead of the recorded ones, one line each.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.problem, self.hint = snapshot.problem, snapshot.hint
        self.paused, self.notes = snapshot.stopped, snapshot.notes
        self._snapshot = snapshot

    @property
    def model(self) -> gdbext.model.Report:
        """The report as values, see `gdbext.model.Report`."""
        made = self._snapshot.report
        assert made is not None
        return made

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return verdict_of(self.model)

    @property
    def awaited(self) -> tuple[int, ...] | None:
        """The processes that can end the waits which the verdict is about; None if no other process matters.

        Other processes matter to a verdict that the process waits for them, that nothing is wrong, or that nothing is
        known. This is also known without a document.
        """
        return self._snapshot.awaited if self._snapshot.verdict in _WEAK else None

    @property
    def status(self) -> int:
        """The exit status of ``gdbext report`` for this report."""
        return self._snapshot.status

    def to_json(self, processes: Mapping[str, Any] | None = None) -> str:
        """The document of schema ``gdbext/1`` on one line.

        :param processes: other processes that explain the verdict, for the document's member of that name.
        """
        assert self._snapshot.document_json is not None
        made = self._snapshot.document_json.decode("ascii")
        return made if processes is None else f'{made.rstrip()[:-1]}, "processes": {json.dumps(processes)}}}'

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that a document of schema ``gdbext/1`` describes.

        :raises gdbext.errors.BadDocument: it is not one.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadDocument(f"it is not JSON: {error}") from None
        made = read_document(document)
        # written again: members that are not known may be anything
        line = "".join(document_text(made, document.keys())).encode()
        return cls(Snapshot(made.target.command_line or "report", line, NOTHING, NOTHING, made.target.paused, 0.0,
                            None, None, status_of(made)))

    @functools.cached_property
    def text(self) -> Safe:
        """The text; ``str`` gives the same."""
        if self._snapshot.text:
            return self._snapshot.text
        # not for the verb `report`, which has a text
        from gdbext.commands.answer import whole_text
        from gdbext.render.style import PLAIN
        from gdbext.render.text import TextRenderer

        return whole_text(TextRenderer(self.model, PLAIN, lambda path, line: None), False, "full")

    def __str__(self) -> str:
        return self.text

    def to_dot(self) -> Safe:
        """The wait-for graph for Graphviz."""
        from gdbext.render.dot import as_dot

        return self._snapshot.dot or as_dot(self.model)

    def to_html(self, title: str | None = None) -> Safe:
        """A page for browsers.

        :raises gdbext.errors.MissingLibrary: there is no Jinja2.
        """
        from gdbext.render.html import html_page

        return html_page([self.shown()], title or f"gdbext: {self._snapshot.target}")

    def shown(self) -> Shown:
        """The report as a part of a page for browsers."""
        return self._snapshot.for_page()


def report_on(target: Target, options: Options) -> Report:
    """Report on a target; `report` and the verb of that name call this.

    :raises NoReport: there is no report.
    """
    seen = take_snapshot(target, options)
    if seen.is_made:
        return Report(seen)
    raise seen.failure()


def report(target: int | str | os.PathLike[str], *, executable: Path | None = None, gdb: str | None = None,
           timeout: float = DEFAULTS.timeout, sysroot: Path | None = None, search: Sequence[Path] = (),
           debuginfod: bool = False, each: bool = False, stacks: str = DEFAULTS.stacks, colour: bool = False,
           width: int | None = None, object_names: bool = True, values_of_others: bool = True,
           without_gdb: bool = False, may_stop: bool = True, max_pause: float = DEFAULTS.max_pause,
           native: str = DEFAULTS.native, locals: bool = False, redact: bool = False) -> Report:
    """Report on a process or a core, as ``gdbext report`` does.

    :param target: a PID, or the path of a core.
    :param executable: of the core, if gdbext does not find it.
    :param gdb: the GDB that takes the snapshot; None: gdbext reads the target itself.
    :param timeout: how long the snapshot may take, in seconds.
    :param sysroot: the folder that has the target's files under their own paths.
    :param search: folders with files of the core.
    :param debuginfod: whether GDB takes the snapshot, and may ask servers for symbols.
    :param each: whether the text shows threads with the same stack one by one.
    :param stacks: how much of each stack the text shows: ``full``, ``top`` or ``none``.
    :param colour: whether the text is coloured.
    :param width: the maximum width of a line of the text, in columns; None: unlimited.
    :param object_names: whether objects with locks are named by one of their values.
    :param values_of_others: whether a report on another user's target has values of variables and such names.
    :param without_gdb: whether the target is read without GDB, also with `debuginfod`.
    :param may_stop: whether, without GDB, threads may be stopped for a moment.
    :param max_pause: how long a process may be paused, in seconds.
    :param native: which threads the text shows with native frames: ``all``, ``verdict`` or ``none``.
    :param locals: whether stacks have the variables of Python frames.
    :param redact: whether what is private is taken out, as with ``--redact``.
    :raises gdbext.errors.GdbextError: there is no report.
    """
    named = Target(pid=target) if isinstance(target, int) else Target(core=Path(target), executable=executable)
    return report_on(named, Options(
        gdb=gdb, timeout=timeout, sysroot=sysroot, search=tuple(search), debuginfod=debuginfod, each=each,
        stacks=stacks, colour=colour, width=width, object_names=object_names, values_of_others=values_of_others,
        without_gdb=without_gdb, may_stop=may_stop, max_pause=max_pause, native=native,
        locals=locals, redact=redact))


def install_signal(number: signal.Signals, directory: str | os.PathLike[str]) -> None:
    """Let this process report on itself and its descendants each time when it receives a signal.

    A second process is started now. It waits for the signal, takes the report from outside, and writes its text and
    its page into the directory. The handler of the signal is C code of Python, which wakes the second process
    (`signal.set_wakeup_fd`). So this works where native code holds the GIL forever. Where that descriptor is in use
    already, as by a running asyncio loop, the main thread must be able to run Python. The second process ends with
    this one.

    :raises ValueError: this is not the main thread.
    """
    from gdbext.launcher.watching.helper import start_helper

    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def notify(received: int, frame: FrameType | None) -> None:
        current = signal.set_wakeup_fd(-1)
        if current != -1:
            signal.set_wakeup_fd(current, warn_on_full_buffer=False)
        if current != writer:  # Python has not written to the pipe
            os.write(writer, bytes([received]))

    try:
        signal.signal(number, notify)
        signal.siginterrupt(number, False)
        other = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        if other != -1:
            signal.set_wakeup_fd(other)
        start_helper("gdbext.launcher.watching.on_signal", os.getpid(), int(number), os.path.abspath(directory),
                     stdin=reader)
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)


def install_watchdog(seconds: float, directory: str | os.PathLike[str]) -> None:
    """Let this process report on itself and its descendants when its main thread has not moved for some time.

    A second process is started now, which this one allows to trace it, so no right is needed. It reads in /proc how
    much processor time the main thread uses. If that is less than 2 % for so long, it takes a report from outside; a
    thread of an event loop that waits for work looks the same, so the report is written only if it finds a deadlock
    or another problem, and a second one after a second does too. The text and the page are in the directory. A hang is
    reported once. The second process ends with this one.

    :param seconds: how long the main thread must not have moved.
    :raises ValueError: the time is not positive.
    """
    from gdbext.launcher.watching.helper import start_helper

    if not seconds > 0:
        raise ValueError("the time must be more than 0 seconds")
    reader, _ = os.pipe()  # its other end is closed when this process ends
    try:
        start_helper("gdbext.launcher.watching.on_silence", os.getpid(), float(seconds), os.path.abspath(directory),
                     stdin=reader)
    finally:
        os.close(reader)
