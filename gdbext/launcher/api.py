"""What programs use: ``import gdbext``; then `gdbext.report`, `gdbext.Report` and `gdbext.install_signal`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from gdbext import model
from gdbext.errors import BadDocument, GdbextError
from gdbext.launcher.snapshots.snapshot import Options, Target, take_snapshot
from gdbext.launcher.status import NO_GDB, NoGdb, Unreadable, status_of
from gdbext.model.verdict import Verdict
from gdbext.render.style import PLAIN
from gdbext.render.text import TextRenderer
from gdbext.schema.read import read_document
from gdbext.schema.write import as_json
from gdbext.verdict.judge import verdict_of

#: All parts of a document.
_PARTS = ("runtimes", "threads", "locks", "deadlocks", "tasks", "crash", "problems")


class Report:
    """A report on a process or core; ``str(report)`` is its text.

    The text of a report from JSON has no source lines.

    :ivar model: the report as values, see `gdbext.model.Report`.
    """

    def __init__(self, values: model.Report, text: str | None = None) -> None:
        self.model = values
        self._text = text

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return verdict_of(self.model)

    @property
    def status(self) -> int:
        """The exit status of ``gdbext report`` for this report."""
        return status_of(self.model)

    def to_json(self) -> str:
        """The document of schema ``gdbext/1`` on one line."""
        return as_json(self.model, _PARTS)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that a document of schema ``gdbext/1`` describes.

        :raises gdbext.errors.BadDocument: it is not one.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadDocument(f"it is not JSON: {error}") from None
        return cls(read_document(document))

    def __str__(self) -> str:
        if self._text is None:
            self._text = TextRenderer(self.model, PLAIN, lambda path, line: None).threads(None, False, "full")
        return self._text


def report(target: int | str | os.PathLike[str], *, executable: Path | None = None, gdb: str | None = None,
           timeout: float = 60.0, sysroot: Path | None = None, search: Sequence[Path] = (), debuginfod: bool = False,
           object_names: bool = True, without_gdb: bool = False, may_stop: bool = True,
           max_pause: float = 10.0) -> Report:
    """Report on a process or a core, as ``gdbext report`` does.

    :param target: a PID, or the path of a core.
    :param executable: of the core, if gdbext does not find it.
    :param gdb: the GDB to use; by default GDB is used only if it can add something.
    :param timeout: how long the snapshot may take, in seconds.
    :param sysroot: the folder that has the target's files under their own paths.
    :param search: folders with files of the core.
    :param debuginfod: whether GDB may ask servers for symbols.
    :param object_names: whether objects with locks are named by one of their values.
    :param without_gdb: whether the target is read without GDB in any case.
    :param may_stop: whether, without GDB, threads may be stopped for a moment.
    :param max_pause: how long a process may be paused, in seconds.
    :raises gdbext.errors.GdbextError: there is no report.
    """
    named = Target(pid=target) if isinstance(target, int) else Target(core=Path(target), executable=executable)
    seen = take_snapshot(named, Options(gdb=gdb, timeout=timeout, sysroot=sysroot, search=tuple(search),
                                        debuginfod=debuginfod, object_names=object_names, values_of_others=True,
                                        without_gdb=without_gdb, may_stop=may_stop, max_pause=max_pause))
    if seen.report is None:
        error: type[GdbextError] = NoGdb if seen.status == NO_GDB else Unreadable
        raise error(seen.problem or "no answer", seen.hint or "")
    return Report(seen.report, seen.text)


def install_signal(number: signal.Signals, directory: str | os.PathLike[str]) -> None:
    """Let this process report on itself and its descendants each time when it receives a signal.

    A second process is started now. It waits for the signal, takes the report from outside, and writes its text and
    its page into the directory. The C code of Python's signal handler wakes it (`signal.set_wakeup_fd`), so it works
    where native code holds the GIL forever. Where that descriptor is in use already, as by a running asyncio loop, the
    main thread must be able to run Python. The second process ends with this one.

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
