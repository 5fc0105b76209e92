"""One snapshot of one target: by one GDB process, or of a core without GDB (`direct`).

The GDB runs in its own session, where Ctrl-C at the terminal does not reach it, and never outlives the launcher.
Signals that interrupt or suspend programs are blocked in it: a GDB that gets SIGINT while it attaches passes it on to
the process. The process always resumes: GDB detaches when the report is made, when its time is up, when the launcher is
interrupted, and when the launcher is killed (`debugger.one_snapshot` asks the kernel for a signal then). A GDB that is
killed or crashes may leave the process stopped; the launcher then sends SIGCONT.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from gdbext.errors import GdbextError
from gdbext.inferior.proc.status import state_of
from gdbext.launcher.snapshots.answers import parse_answer
from gdbext.launcher.snapshots.containers import prepare_process
from gdbext.launcher.snapshots.cores import prepare_core
from gdbext.launcher.snapshots.direct import read_without_gdb
from gdbext.launcher.snapshots.finding import find_gdb, probe
from gdbext.launcher.snapshots.limit import Limit
from gdbext.launcher.snapshots.preparation import Preparation
from gdbext.launcher.snapshots.programs import HOME, environment
from gdbext.launcher.snapshots.rights import core_is_anothers, process_is_anothers, why_not_attached, why_not_traced
from gdbext.launcher.snapshots.said import last_line, memory_hint
from gdbext.launcher.snapshots.server import end_server
from gdbext.launcher.status import NO_ANSWER, NO_GDB, NoGdb, Unreadable
from gdbext.model import Report
from gdbext.model.verdict import STATUS_OF_OUTCOME
from gdbext.record import record
from gdbext.render.escape import NOTHING, Safe, cleaned, printable
from gdbext.render.shown import Shown
from gdbext.schema.read import read_document

#: How long GDB may take to detach and end after SIGTERM, in seconds.
_PATIENCE = 5.0
#: Which part of its time limit a snapshot may read; the rest of the time is for making the report.
_READING = 0.5
#: Signals that GDB must not get. SIGTERM ends it.
_NOT_FOR_GDB = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
                signal.SIGUSR1, signal.SIGUSR2)
#: Signals that end the launcher; they are blocked until the process has resumed.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How much of the output of GDB is kept to explain a failure, in bytes.
_SAID = 1 << 16

#: GDB's first commands. It reads symbols only of libraries that stacks are in (`debugger.lazy`), since the process is
#: paused meanwhile. It must not run scripts next to the target, which anybody may have written. libthread_db would give
#: a container's threads the numbers that they have inside.
SETTINGS = (
    "set auto-solib-add off",
    "set confirm off", "set width 0", "set height 0", "set pagination off", "set style enabled off",
    "set auto-load gdb-scripts off", "set auto-load python-scripts off", "set auto-load guile-scripts off",
    "set auto-load local-gdbinit off", "set libthread-db-search-path /nonexistent",
)
# one line, since GDB takes it as one command; the package's folder must not come before GDB's own folders
_START = ("python import sys; sys.path.insert(0, {home!r}); import gdbext; sys.path.append(sys.path.pop(0)); "
          "from gdbext.debugger.one_snapshot import main; main({request}, {answer})")

# "ptrace: Operation not permitted."
_NOT_PERMITTED = re.compile(r"Operation not permitted|Permission denied")


@record
class Target:
    """A process by its PID, or a core with its executable if that is known."""

    pid: int | None = None
    core: Path | None = None
    executable: Path | None = None

    @property
    def name(self) -> str:
        """The name in reports."""
        return f"process {self.pid}" if self.pid is not None else str(self.core)


@record
class Options:
    """How to take a snapshot, and how its text looks.

    `gdb` is the GDB that takes the snapshot, a file or a name on ``$PATH``; None: gdbext reads the target itself.
    `timeout` is in seconds. `sysroot` is the folder that holds the target's files under their own paths, `search` are
    folders that may hold them anywhere. With `debuginfod` GDB takes the snapshot, and asks servers for symbols; no GDB
    does with `without_gdb`. `each` shows each thread by itself, `stacks` is ``full``, ``top`` or ``none``, `width` is
    the columns of a line. With `object_names` an object that has a lock is named by the value of an attribute. Without
    `values_of_others` these values and those of variables are left out if the target belongs to another user.
    `may_stop` says whether, without GDB, threads of a process may be stopped for a moment. A process is paused for at
    most `max_pause` seconds. With `text_only` the snapshot has neither a document nor a graph.
    """

    gdb: str | None = None
    timeout: float = 60.0
    sysroot: Path | None = None
    search: tuple[Path, ...] = ()
    debuginfod: bool = False
    each: bool = False
    stacks: str = "full"
    colour: bool = False
    width: int | None = None
    object_names: bool = True
    values_of_others: bool = False
    without_gdb: bool = False
    may_stop: bool = True
    max_pause: float = 10.0
    text_only: bool = False

    @property
    def by_gdb(self) -> bool:
        """Whether GDB takes the snapshot: only if the user names one, or wants symbols from servers."""
        return not self.without_gdb and (self.gdb is not None or self.debuginfod)


@record
class Snapshot:
    """The result of a snapshot.

    `document_json` is a line of JSON of schema ``gdbext/1``, None without an answer or if only the text was wanted.
    `stopped` is how long the process was paused, None for a core and where GDB did not attach; `seconds` is how long
    the snapshot took; both in seconds. `problem` says what went wrong and `hint` what to do; there may be a document of
    the part that could be read. `notes` name the files that were used. `status` is an exit status of the launcher.
    `source` has the source lines of the text, each after its file and line number; `source_notes` is what the text says
    about them.
    """

    target: str
    document_json: bytes | None
    text: Safe
    dot: Safe
    stopped: float | None
    seconds: float
    problem: str | None
    hint: str | None
    status: int
    notes: tuple[str, ...] = ()
    source: tuple[tuple[str, int, str], ...] = ()
    source_notes: tuple[str, ...] = ()

    @property
    def is_made(self) -> bool:
        """Whether there is an answer."""
        return bool(self.text) or self.document_json is not None

    @functools.cached_property
    def document(self) -> dict[str, Any] | None:
        """The values of the document, which take many times the memory of its text."""
        if self.document_json is None:
            return None
        made: dict[str, Any] = json.loads(self.document_json)
        return made

    @functools.cached_property
    def report(self) -> Report | None:
        """The report that the document describes.

        :raises BadDocument: the document does not follow the schema.
        """
        return None if self.document is None else read_document(self.document)

    def for_page(self) -> Shown:
        """The snapshot as `render.html` takes it."""
        source = {(file, line): text for file, line, text in self.source}
        return Shown(self.target, self.report, self.problem, stopped=self.stopped, source=source,
                     source_notes=self.source_notes)


def take_snapshot(target: Target, options: Options) -> Snapshot:
    """Take a snapshot of a target.

    :return: the result; a bad target is a problem in it, not an exception.
    :raises KeyboardInterrupt: after GDB has detached; so do all other exceptions that are not `GdbextError`.
    """
    started = time.monotonic()
    limit = Limit(options.timeout)
    run = _Run(limit)
    try:
        gdb = find_gdb(options.gdb) if options.by_gdb else None
        with prepared(target, options, limit) as preparation:
            run.notes = preparation.notes
            answer = _answer(run, gdb, target, options, preparation)
    except (GdbextError, OSError) as error:
        if isinstance(error, OSError):
            error = GdbextError(f"{target.name} cannot be read: {error.strerror or error}",
                                "see whether memory, descriptors or room for files have run out")
        return Snapshot(target.name, None, NOTHING, NOTHING, run.stopped, time.monotonic() - started, str(error),
                    error.hint or None, NO_GDB if isinstance(error, NoGdb) else NO_ANSWER, run.notes)
    status = STATUS_OF_OUTCOME[answer["outcome"]]
    problem, hint = answer["incomplete"] or answer["unknown"], answer["hint"] or None
    if target.core is not None and hint:
        hint = "name it after the core, or a folder that has it: --search DIR"
    stopped = answer.get("paused", run.stopped)
    return Snapshot(target.name, answer.get("document"), cleaned(answer["text"]), cleaned(answer.get("dot", "")),
                stopped, time.monotonic() - started, problem, hint, status, run.notes,
                tuple([(file, line, text) for file, line, text in answer["source"]]), tuple(answer["source_notes"]))


def _answer(run: _Run, gdb: str | None, target: Target, options: Options,
            preparation: Preparation) -> Mapping[str, Any]:
    """Take the snapshot, by GDB if there is one, and return the answer.

    :raises GdbextError: there is no answer.
    """
    if gdb is None:
        return _read_without_gdb(target, options, preparation, run.limit)
    why = why_not_attached(target.pid) if target.pid is not None else None
    if why is not None:
        run.notes = (*run.notes, f"GDB was not used: {why}")
        return _read_without_gdb(target, options, preparation, run.limit)
    return run.answer(gdb, target, options, preparation)


def _read_without_gdb(target: Target, options: Options, preparation: Preparation, limit: Limit) -> Mapping[str, Any]:
    answer = read_without_gdb(target.name, {
        "pid": target.pid, "may_stop": options.may_stop, "executable": preparation.executable,
        "places": dict(preparation.places), "each": options.each, "stacks": options.stacks,
        "colour": options.colour, "width": options.width, **_values(options, preparation),
        "seconds": limit.left * _READING, "max_pause": options.max_pause,
        "text_only": options.text_only,
        "sysroot": os.path.realpath(options.sysroot) if options.sysroot is not None else None},
        preparation.descriptors[0] if target.core is not None else None, limit)
    if "denied" in answer and target.pid is not None:
        raise Unreadable(*why_not_traced(target.pid))
    return answer


def _values(options: Options, preparation: Preparation) -> Mapping[str, bool]:
    """Which values a report has, as members of a request."""
    withheld = preparation.is_anothers and not options.values_of_others
    return {"object_names": options.object_names and not withheld, "withhold_values": withheld}


@contextlib.contextmanager
def prepared(target: Target, options: Options, limit: Limit) -> Iterator[Preparation]:
    """Prepare a GDB to open a target; temporary files are removed afterwards.

    :raises Unreadable: the target cannot be read.
    """
    if target.pid is not None:
        with contextlib.ExitStack() as files:
            yield replace(prepare_process(target.pid, files, options.sysroot),
                          is_anothers=process_is_anothers(target.pid))
        return
    assert target.core is not None
    with prepare_core(target.core, target.executable, options.sysroot, options.search, limit) as preparation:
        yield replace(preparation, is_anothers=preparation.core is not None and core_is_anothers(preparation.core))


def settings(options: Options, preparation: Preparation) -> tuple[str, ...]:
    """The GDB commands to run before the target is loaded."""
    return (*SETTINGS, f"set debuginfod enabled {'on' if options.debuginfod else 'off'}", *preparation.settings)


_running: set[subprocess.Popen[bytes]] = set()
_running_lock = threading.Lock()


def end_running() -> None:
    """End the GDBs of other threads in good order, and snapshots without GDB; these then fail."""
    end_server()
    with _running_lock:
        for process in _running:
            process.terminate()


class _Run:
    """One GDB from its start to its end."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        #: How long the process was paused, in seconds.
        self.stopped: float | None = None
        self.notes: tuple[str, ...] = ()

    def answer(self, gdb: str, target: Target, options: Options, preparation: Preparation) -> Mapping[str, Any]:
        """Start GDB and return its answer.

        :raises GdbextError: it does not answer.
        """
        self.limit.check(f"{target.name} was not read")
        max_pause = min(options.max_pause, self.limit.left * _READING)
        # a process that job control has stopped, as Ctrl-Z does, stays stopped
        halted = target.pid is not None and state_of(target.pid) == "T"
        with _memory_file("request") as request, _memory_file("answer") as answer:
            request.write(json.dumps({
                "parent": os.getpid(), "pid": target.pid, "core": preparation.core,
                "executable": preparation.executable, "settings": settings(options, preparation),
                "each": options.each, "stacks": options.stacks, "colour": options.colour, "width": options.width,
                "paused_before": 0.0, **_values(options, preparation),
                "max_pause": max_pause,
                "seconds": self.limit.left * _READING, "text_only": options.text_only,
            }).encode())
            request.seek(0)
            start = _START.format(home=HOME, request=request.fileno(), answer=answer.fileno())
            with contextlib.ExitStack() as held:
                held.enter_context(_blocked(_NOT_FOR_GDB))  # GDB inherits the mask of this thread
                try:
                    process = subprocess.Popen(
                        [gdb, "-nx", "-batch", "-ex", start], env=environment(options.debuginfod), cwd="/",
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                        start_new_session=True,
                        pass_fds=(request.fileno(), answer.fileno(), *preparation.descriptors))
                except OSError as error:
                    raise NoGdb(f"{printable(gdb)} does not run: {error.strerror}",
                                "name another one: --gdb FILE") from None
                try:
                    held.close()
                    said = self._wait(process)
                finally:
                    # also after an interrupt: the process resumes before anything else happens
                    with _blocked(_ENDING):
                        _end(process, _PATIENCE if target.pid is not None else 0.0)
                        answer.seek(0)
                        lines = parse_answer(answer.read())
                        self._resume(target.pid, lines, halted)
        return self._result(gdb, target, lines, said, max_pause if process.returncode == -signal.SIGALRM else None)

    def _wait(self, process: subprocess.Popen[bytes]) -> str | None:
        """What it prints; None if its time is up."""
        with _running_lock:
            _running.add(process)
        try:
            said, _ = process.communicate(timeout=self.limit.left)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with _running_lock:
                _running.discard(process)
        return said[-_SAID:].decode("utf-8", "replace")

    def _resume(self, pid: int | None, lines: Mapping[str, Any], halted: bool) -> None:
        """Make sure that the process runs as before."""
        if pid is None or lines.get("attached") is None:
            return
        if "detached" not in lines and not halted:
            # GDB was killed or has crashed; a thread may still get the SIGSTOP with which GDB had stopped it
            # (ptrace(2), "if the tracee is restarted from signal-delivery-stop, the pending signal is injected")
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:  # it has ended
                pass
        self.stopped = lines.get("detached", time.monotonic()) - lines["attached"]

    def _result(self, gdb: str, target: Target, lines: Mapping[str, Any], said: str | None,
                hung: float | None) -> Mapping[str, Any]:
        """The answer; `hung` is how long GDB tried to attach until its alarm ended it, None if that did not happen."""
        if "outcome" in lines:
            return lines
        if said is None:
            raise self.limit.exceeded(f"{target.name} was not read")
        if target.pid is not None and ("attached" in lines or "problem" in lines):
            _explain(target.pid, str(lines.get("problem", "")))
        if "problem" in lines:
            raise Unreadable(lines["problem"], lines["hint"])
        if hung is not None:
            raise Unreadable(f"GDB did not attach to {target.name} within {hung:.3g} s",
                             "see it without GDB: leave out --gdb")
        probe(gdb).check()  # most likely GDB has no Python
        last = last_line(said)
        raise Unreadable(f"GDB ended without an answer{': ' if last else ''}{last}",
                         memory_hint() or "`gdbext doctor` checks this GDB")


def _explain(pid: int, problem: str) -> None:
    """Raise if there is a better reason than GDB's why a process cannot be read.

    :raises Unreadable: the reason.
    """
    if not os.path.isdir(f"/proc/{pid}") or state_of(pid) in ("Z", "X"):
        raise Unreadable(f"process {pid} ended during the snapshot", "name another process, or its core")
    if _NOT_PERMITTED.search(problem):
        raise Unreadable(*why_not_traced(pid))


@contextlib.contextmanager
def _blocked(numbers: Collection[int]) -> Iterator[None]:
    """Block signals in this thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    """End a GDB, gently if that helps within `patience` seconds."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _memory_file(name: str) -> IO[bytes]:
    """Open a file without a name, of which nothing remains."""
    return os.fdopen(os.memfd_create(f"gdbext-{name}"), "w+b", buffering=0)
