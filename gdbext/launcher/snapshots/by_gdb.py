"""One snapshot by a GDB in batch mode, with the commands that a person types: the target, then `py-threads-locks`.

The GDB runs in its own session, where Ctrl-C at the terminal does not reach it, and never outlives the launcher.
Signals that interrupt or suspend programs are blocked in it: a GDB that gets SIGINT while it attaches passes it on to
the process. The process always resumes: GDB detaches when the command has ended, when its time is up, when the launcher
is interrupted, and when the launcher is killed (the kernel then sends SIGTERM). A GDB that is killed or crashes may
leave the process stopped; the launcher then sends SIGCONT.

GDB writes lines of JSON: the document, and for a process those of `debugger.attach`, which say when it was paused.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import IO, Any

from gdbext.elf.core_file import read_core_file
from gdbext.errors import BadDocument, GdbextError
from gdbext.inferior.proc.status import state_of
from gdbext.launcher.snapshots.answers import parse_answer
from gdbext.launcher.snapshots.finding import probe
from gdbext.launcher.snapshots.limit import Limit
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.preparation import Preparation
from gdbext.launcher.snapshots.programs import environment, source_line
from gdbext.launcher.snapshots.rights import why_not_traced
from gdbext.launcher.snapshots.said import last_line, memory_hint
from gdbext.launcher.status import NoGdb, NoReport, Unreadable
from gdbext.model import Report
from gdbext.render.escape import printable
from gdbext.schema.read import read_document

#: How long GDB may take to detach and end after SIGTERM, in seconds.
_PATIENCE = 5.0
#: Which part of its time limit a snapshot may read; the rest of the time is for making the report.
READING = 0.5
#: The limits of `set gdbext max-pause`, and how long after its time GDB may take to detach, in seconds.
_LEAST, _MOST, _GRACE = 1.0, 3600.0, 5.0
#: prctl(2): the signal that a process gets when its parent ends. Source: Linux 6.1 include/uapi/linux/prctl.h.
_PR_SET_PDEATHSIG = 1
#: Signals that GDB must not get. SIGTERM ends it.
_NOT_FOR_GDB = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
                signal.SIGUSR1, signal.SIGUSR2)
#: Signals that end the launcher; they are blocked until the process has resumed.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How much of GDB's error messages is read to explain a failure, and of its output at once, in bytes.
_SAID, _PIECE = 1 << 16, 1 << 20
#: The lines that GDB writes when it begins to attach and when it has attached take fewer bytes.
_FIRST_LINES = 200

#: GDB's first commands. It reads symbols only of libraries that stacks are in (`debugger.lazy`), since the process is
#: paused meanwhile. It must not run scripts next to the target, which anybody may have written. libthread_db would give
#: a container's threads the numbers that they have inside.
SETTINGS = (
    "set auto-solib-add off",
    "set confirm off", "set width 0", "set height 0", "set pagination off", "set style enabled off",
    "set auto-load gdb-scripts off", "set auto-load python-scripts off", "set auto-load guile-scripts off",
    "set auto-load local-gdbinit off", "set libthread-db-search-path /nonexistent",
)
#: As much of a value as a report without GDB shows (`cpython.values.DEFAULT_LIMITS`).
_VALUES = ("set gdbext locals-depth 3", "set gdbext locals-width 200")
# "ptrace: Operation not permitted."
_NOT_PERMITTED = re.compile(r"Operation not permitted|Permission denied")
# "py-threads-locks: the executable was not found; name it"
_COMPLAINT = re.compile(r"(?:gdbext attach|py-threads-locks): (.*)")


def opening(target: Target, preparation: Preparation) -> str:
    """The GDB command that attaches to the process or loads the core (`debugger.attach`)."""
    executable = preparation.executable
    if target.pid is not None:
        call = f"process({target.pid}, {executable!r}, {'; '.join(why_not_traced(target.pid))!r})"
    else:
        call = f"core({preparation.core!r}, {executable!r}, {target.name!r})"
    return f"python import gdbext.debugger.attach; gdbext.debugger.attach.{call}"


def read_by_gdb(gdb: str, target: Target, options: Options, preparation: Preparation, limit: Limit,
                withhold_values: bool) -> Mapping[str, Any]:
    """Take a snapshot of a process or core.

    :param withhold_values: whether values of variables and of objects with locks are left out.
    :return: the answer as of `commands.answer.answer`; ``paused`` is how long the process was paused, in seconds.
    :raises GdbextError: there is no answer.
    """
    limit.check(f"{target.name} was not read")
    max_pause = max(min(options.max_pause, limit.left * READING, _MOST), _LEAST)
    settings = [*SETTINGS, f"set debuginfod enabled {'on' if options.debuginfod else 'off'}", *preparation.settings,
                source_line(), *_VALUES, f"set gdbext max-pause {round(max_pause)}"]
    if withhold_values or not options.object_names:
        settings.append("set gdbext object-names off")
    commands = [opening(target, preparation)]
    if target.pid is not None:
        commands += ["py-threads-locks --json --tasks", "python gdbext.debugger.attach.detach()"]
    else:
        commands += ["py-threads-locks --json --tasks --crash"]
    argv = [gdb, "-nx", "-batch", *(part for setting in settings for part in ("-iex", setting)),
            *(part for command in commands for part in ("-ex", command))]
    run = _Run(target, limit, max_pause)
    run.run(argv, options.debuginfod, preparation)
    return run.answer(gdb, options, preparation, withhold_values)


_running: set[subprocess.Popen[bytes]] = set()
_running_lock = threading.Lock()


def end_gdbs() -> None:
    """End the GDBs of other threads in good order; their snapshots then fail."""
    with _running_lock:
        for process in _running:
            process.terminate()


class _Run:
    """One GDB from its start to its end."""

    def __init__(self, target: Target, limit: Limit, max_pause: float) -> None:
        self._target, self._limit, self._max_pause = target, limit, max_pause
        self._output = bytearray()
        self._said = ""
        #: Which time was over when GDB was ended: the `limit` of the snapshot, to `attach`, or for the `pause`.
        self._late: str | None = None
        #: How long the process was paused, in seconds; None if GDB did not attach.
        self._paused: float | None = None

    def run(self, argv: list[str], debuginfod: bool, preparation: Preparation) -> None:
        """Start GDB and wait until it has ended.

        :raises NoGdb: it does not run.
        """
        # a process that job control has stopped, as Ctrl-Z does, stays stopped
        halted = self._target.pid is not None and state_of(self._target.pid) == "T"
        with os.fdopen(os.memfd_create("gdbext-errors"), "w+b", buffering=0) as errors, contextlib.ExitStack() as held:
            held.enter_context(_blocked(_NOT_FOR_GDB))  # GDB inherits the mask of this thread
            try:
                process = subprocess.Popen(
                    argv, env=environment(debuginfod), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=errors, start_new_session=True, preexec_fn=_ended_with(os.getpid()),
                    pass_fds=preparation.descriptors)
            except (OSError, subprocess.SubprocessError) as error:
                raise NoGdb(f"{printable(argv[0])} does not run: {getattr(error, 'strerror', None) or error}",
                            "name another one: --gdb FILE") from None
            assert process.stdout is not None
            try:
                held.close()
                self._read(process, process.stdout)
            finally:
                # also after an interrupt: the process resumes before anything else happens
                with _blocked(_ENDING):
                    # a GDB that is attaching does not notice SIGTERM
                    attaches = b'"attaching"' in self._output[:_FIRST_LINES] and not self._has_attached
                    _end(process, 0.0 if attaches or self._target.pid is None else _PATIENCE)
                    with process.stdout as pipe:
                        self._read_rest(pipe.fileno())
                    self._resume(process.returncode, halted)
            self._said = os.pread(errors.fileno(), _SAID, max(os.fstat(errors.fileno()).st_size - _SAID, 0)).decode(
                "utf-8", "replace")

    @property
    def _has_attached(self) -> bool:
        return b'"attached"' in self._output[:_FIRST_LINES]

    def _read(self, process: subprocess.Popen[bytes], pipe: IO[bytes]) -> None:
        """Read GDB's output to its end, or until its time is up."""
        with _running_lock:
            _running.add(process)
        try:
            limit = deadline = (time.monotonic() + self._limit.left, "limit")
            begun, lines = 0.0, 0  # the first two lines say that GDB attaches, and that it has attached
            poll = select.poll()
            poll.register(pipe, select.POLLIN)
            while poll.poll(max(deadline[0] - time.monotonic(), 0) * 1000):
                piece = os.read(pipe.fileno(), _PIECE)
                if not piece:
                    return
                self._output += piece
                if lines < 2 and self._target.pid is not None:
                    begun = begun or time.monotonic()
                    lines = self._output[:_FIRST_LINES].count(b"\n")
                    deadline = min(limit, (begun + self._max_pause, "attach") if lines < 2 else
                                   (begun + self._max_pause + _GRACE, "pause"))
            self._late = deadline[1]
        finally:
            with _running_lock:
                _running.discard(process)

    def _read_rest(self, pipe: int) -> None:
        """Read what GDB has written, without waiting for processes that it may have started."""
        os.set_blocking(pipe, False)
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(pipe, _PIECE):
                self._output += piece

    def _resume(self, status: int, halted: bool) -> None:
        """Make sure that the process runs as before."""
        lines = parse_answer(self._output)
        # if attaching fails, GDB ends by itself
        if self._target.pid is None or "attaching" not in lines or "attached" not in lines and status >= 0:
            return
        if "detached" not in lines and not halted:
            # GDB was killed or has crashed; a thread may still get the SIGSTOP with which GDB had stopped it
            # (ptrace(2), "if the tracee is restarted from signal-delivery-stop, the pending signal is injected")
            with contextlib.suppress(OSError):  # it has ended
                os.kill(self._target.pid, signal.SIGCONT)
        self._paused = lines.get("detached", time.monotonic()) - lines["attaching"]

    def answer(self, gdb: str, options: Options, preparation: Preparation, withhold_values: bool) -> Mapping[str, Any]:
        """Make the answer from GDB's document.

        :raises GdbextError: there is none.
        """
        from gdbext.commands import answer  # and with it all that renders text, which few reports have to load here

        lines = parse_answer(self._output)
        # a GDB that gets SIGTERM may run its last command before it ends
        report = _read_document(lines.get("document")) if self._late is None else None
        if report is None:
            error = self._error(gdb, "attaching" in lines)
            error.paused = self._paused
            raise error
        if self._target.pid is not None:
            files = answer.source_of_process(self._target.pid)
            if self._paused is not None:
                report = replace(report, target=replace(report.target, paused=round(self._paused, 3)))
        else:
            assert preparation.core is not None
            written = os.stat(preparation.core).st_mtime
            files = answer.source_of_core(read_core_file(preparation.core), lambda: written, root=preparation.root)
        if withhold_values:
            report = answer.withhold_values(report)
        made = answer.answer(report, self._complaint(), files, options)
        if "document" in made:
            made["document"] = "".join(made["document"]).encode()
        return {**made, "paused": self._paused}

    def _complaint(self) -> GdbextError | None:
        """The error of the last command that had one."""
        found = [match for match in map(_COMPLAINT.fullmatch, self._said.splitlines()) if match]
        if not found:
            return None
        problem, _, hint = found[-1][1].rpartition("; ")
        return GdbextError(problem or hint, hint if problem else "")

    def _error(self, gdb: str, attaches: bool) -> NoReport:
        """Why there is no document.

        :raises NoGdb: because of GDB.
        """
        pid, name, complaint = self._target.pid, self._target.name, self._complaint()
        if self._late == "limit":
            return self._limit.exceeded(f"{name} was not read")
        if self._late == "attach":
            return Unreadable(f"GDB did not attach to {name} within {self._max_pause:.3g} s",
                              "see it without GDB: leave out --gdb")
        if self._late == "pause":
            return Unreadable("the process was resumed before it was read: the time was over",
                              "give it more time: --max-pause SECONDS")
        if pid is not None and attaches:
            if not os.path.isdir(f"/proc/{pid}") or state_of(pid) in ("Z", "X"):
                return Unreadable(f"process {pid} ended during the snapshot", "name another process, or its core")
            if complaint is not None and _NOT_PERMITTED.search(str(complaint)):
                return Unreadable(*why_not_traced(pid))
        if complaint is not None:
            return Unreadable(str(complaint), complaint.hint)
        if not attaches:
            probe(gdb).check()  # most likely GDB has no Python
        last = last_line(self._said)
        return Unreadable(f"GDB ended without an answer{': ' if last else ''}{last}",
                          memory_hint() or "`gdbext doctor` checks this GDB")


def _read_document(text: bytes | None) -> Report | None:
    """The report of a document; None if there is none, or if it is damaged."""
    try:
        return read_document(json.loads(text)) if text is not None else None
    except (ValueError, BadDocument):
        return None


def _ended_with(parent: int) -> Callable[[], None]:
    """A function for a new process, which then gets SIGTERM when its parent ends."""
    import ctypes  # few reports call it

    prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it has ended before
            os._exit(1)

    return prepare


@contextlib.contextmanager
def _blocked(numbers: Collection[int]) -> Iterator[None]:
    """Block signals in this thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    """End a GDB: gently if that helps within `patience` seconds, else by force, with its child processes."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            # GDB leads its process group. While it attaches it tries ptrace on a child that stops itself, and that
            # nobody else ends (GDB 13 gdb/nat/linux-ptrace.c, linux_check_ptrace_features).
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
