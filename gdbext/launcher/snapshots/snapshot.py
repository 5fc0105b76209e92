"""One look at one target by one GDB process.

The GDB runs in a session of its own, so that Ctrl-C at the terminal does not reach it, and never outlives the launcher.
It starts with the signals blocked that interrupt or suspend programs: a GDB that gets SIGINT while it waits for the
process, as it does to attach, sends it on to the process. The process runs on whatever happens: GDB detaches when the
report is made, when its time is up, when the launcher is interrupted, and when the launcher is killed
(`debugger.one_look` asks the kernel for a signal then). A GDB that must be killed, or that crashes, may leave a process
stopped: it then gets SIGCONT.
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
from pathlib import Path
from typing import IO, Any

from gdbext.errors import GdbextError
from gdbext.launcher.proc_files import state_of
from gdbext.launcher.snapshots.containers import prepare_process
from gdbext.launcher.snapshots.cores import prepare_core
from gdbext.launcher.snapshots.finding import HOME, environment, find_gdb, probe
from gdbext.launcher.snapshots.preparation import Preparation
from gdbext.launcher.snapshots.rights import why_not_traced
from gdbext.launcher.status import FOUND, NO_ANSWER, NO_GDB, NOTHING_FOUND, NoGdb, Unreadable
from gdbext.model import Report
from gdbext.record import record
from gdbext.render.escape import printable
from gdbext.render.shown import Shown
from gdbext.schema.read import read_document

#: How long a GDB that was told to end may take to let the process go, in seconds.
_PATIENCE = 5.0
#: Signals that GDB must not get. SIGTERM is what ends it.
_NOT_FOR_GDB = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
                signal.SIGUSR1, signal.SIGUSR2)
#: Signals that end the launcher; they wait until the process runs on.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How much of what GDB says is kept to explain a failure, in bytes.
_SAID = 1 << 16

#: What GDB is told before everything else. Of libraries it reads symbols only where stacks lie in them
#: (`debugger.lazy`), since the process stands still meanwhile. Files that lie beside what is debugged are no business
#: of ours, and could be anybody's; the thread library would number the threads of a container as that does.
SETTINGS = (
    "set auto-solib-add off",
    "set confirm off", "set width 0", "set height 0", "set pagination off", "set style enabled off",
    "set auto-load gdb-scripts off", "set auto-load python-scripts off", "set auto-load guile-scripts off",
    "set auto-load local-gdbinit off", "set libthread-db-search-path /nonexistent",
)
# one line, since GDB takes all of it as one command; what lies beside the package must not come before GDB's own
_START = ("python import sys; sys.path.insert(0, {home!r}); import gdbext; sys.path.append(sys.path.pop(0)); "
          "from gdbext.debugger.one_look import main; main({request}, {answer})")

_ENDED = "it ended while it was looked at"
# "ptrace: Operation not permitted.", "ptrace: No such process."
_NOT_PERMITTED = re.compile(r"Operation not permitted|Permission denied")
_NO_PROCESS = re.compile(r"No such process|no longer exists|exited|Couldn't get registers|zombie")


@record
class Target:
    """What to look at: a process, by its PID, or a core with, where it is known, its executable."""

    pid: int | None = None
    core: Path | None = None
    executable: Path | None = None

    @property
    def name(self) -> str:
        """What to call it."""
        return f"process {self.pid}" if self.pid is not None else str(self.core)


@record
class Options:
    """How to look.

    `gdb` is a file or a name on ``$PATH``; `timeout` is in seconds. `sysroot` is the folder that has the target's
    files by their own names, `search` folders in which they may lie anywhere. `debuginfod`: GDB may ask servers for
    symbols. Of the text, `each` shows each thread by itself, `stacks` is ``full``, ``top`` or ``none``, `width` is
    how many columns a line may take.
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


@record
class Snapshot:
    """What was seen.

    `document` is of schema ``gdbext/1``, None where there is no answer. `stopped` is how long the process stood still,
    `seconds` how long the look took, both in seconds; `stopped` is None for a core, and where nothing was attached to.
    `problem` says in one line what went wrong, and `hint` what to do; there may be a document all the same, of what
    could be read. `notes` tell what was used to read it. `status` is an exit status of the launcher.
    """

    target: str
    document: dict[str, Any] | None
    text: str
    dot: str | None
    stopped: float | None
    seconds: float
    problem: str | None
    hint: str | None
    status: int
    notes: tuple[str, ...] = ()

    @functools.cached_property
    def report(self) -> Report | None:
        """What the document describes.

        :raises BadDocument: it is not as the schema describes it.
        """
        return None if self.document is None else read_document(self.document)

    def for_page(self) -> Shown:
        """What `render.html` makes a page of."""
        return Shown(self.target, self.report, self.problem, stopped=self.stopped)


def take_snapshot(target: Target, options: Options) -> Snapshot:
    """Look at a target.

    :return: what was seen; never an error for a target that is bad.
    :raises KeyboardInterrupt: as any other exception that is none of ours, when GDB has let the process go.
    """
    started = time.monotonic()
    run = _Run()
    try:
        gdb = find_gdb(options.gdb)
        with prepared(target, options) as preparation:
            run.notes = preparation.notes
            answer = run.answer(gdb, target, options, preparation)
    except (GdbextError, OSError) as error:
        if isinstance(error, OSError):
            error = GdbextError(f"{target.name} cannot be looked at: {error.strerror or error}",
                                "see whether memory, descriptors or room for files have run out")
        return Snapshot(target.name, None, "", None, run.stopped, time.monotonic() - started, str(error),
                    error.hint or None, NO_GDB if isinstance(error, NoGdb) else NO_ANSWER, run.notes)
    status = FOUND if answer["deadlocks"] or answer["crash"] else NO_ANSWER if answer["no_verdict"] else NOTHING_FOUND
    problem, hint = answer["incomplete"] or answer["no_verdict"], answer["hint"] or None
    if target.core is not None and hint:
        hint = "name it after the core, or a folder that has it: --search DIR"
    return Snapshot(target.name, answer["document"], answer["text"], answer["dot"], run.stopped,
                time.monotonic() - started, problem, hint, status, run.notes)


@contextlib.contextmanager
def prepared(target: Target, options: Options) -> Iterator[Preparation]:
    """What GDB must be told to get at a target; temporary files are removed afterwards.

    :raises Unreadable: the target cannot be looked at.
    """
    if target.pid is not None:
        yield prepare_process(target.pid, options.sysroot)
        return
    assert target.core is not None
    with prepare_core(target.core, target.executable, options.sysroot, options.search) as preparation:
        yield preparation


def settings(options: Options, preparation: Preparation) -> tuple[str, ...]:
    """The GDB commands that come before the target is loaded."""
    return (*SETTINGS, f"set debuginfod enabled {'on' if options.debuginfod else 'off'}", *preparation.settings)


_running: set[subprocess.Popen[bytes]] = set()
_running_lock = threading.Lock()


def end_running() -> None:
    """Have the GDBs of all looks that other threads are at end, in good order; those looks then fail."""
    with _running_lock:
        for process in _running:
            process.terminate()


class _Run:
    """One GDB from its start to its end."""

    def __init__(self) -> None:
        #: How long the process stood still, in seconds.
        self.stopped: float | None = None
        self.notes: tuple[str, ...] = ()
        self._timed_out = False

    def answer(self, gdb: str, target: Target, options: Options, preparation: Preparation) -> Mapping[str, Any]:
        """Start it, and what it answers.

        :raises GdbextError: it does not answer.
        """
        # job control has stopped it, as Ctrl-Z does: then it is to stay so
        halted = target.pid is not None and state_of(target.pid) == "T"
        with _memory_file("request") as request, _memory_file("answer") as answer:
            request.write(json.dumps({
                "parent": os.getpid(), "pid": target.pid, "core": preparation.core,
                "executable": preparation.executable, "settings": settings(options, preparation),
                "each": options.each, "stacks": options.stacks, "colour": options.colour, "width": options.width,
            }).encode())
            request.seek(0)
            start = _START.format(home=str(HOME), request=request.fileno(), answer=answer.fileno())
            with contextlib.ExitStack() as held:
                held.enter_context(_blocked(_NOT_FOR_GDB))  # a program inherits the mask of the thread that starts it
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
                    said = self._wait(process, options.timeout)
                finally:
                    # also when we are interrupted: the process first, everything else afterwards
                    with _blocked(_ENDING):
                        _end(process)
                        told = _lines(answer)
                        self._let_go(target.pid, told, halted)
        return self._result(gdb, target, options, told, said)

    def _wait(self, process: subprocess.Popen[bytes], timeout: float) -> str:
        with _running_lock:
            _running.add(process)
        try:
            said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self._timed_out = True
            return ""
        finally:
            with _running_lock:
                _running.discard(process)
        return said[-_SAID:].decode("utf-8", "replace")

    def _let_go(self, pid: int | None, told: Mapping[str, Any], halted: bool) -> None:
        """See to it that the process runs on as it did before."""
        if pid is None or told.get("attached") is None:
            return
        if "detached" not in told and not halted:
            # GDB was killed or has crashed; a thread may get the SIGSTOP after all with which GDB had stopped it
            # (ptrace(2), "if the tracee is restarted from signal-delivery-stop, the pending signal is injected")
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:  # it has ended
                pass
        self.stopped = told.get("detached", time.monotonic()) - told["attached"]

    def _result(self, gdb: str, target: Target, options: Options, told: Mapping[str, Any],
                said: str) -> Mapping[str, Any]:
        if "document" in told:
            return told
        if self._timed_out:
            raise Unreadable(f"{target.name} was not read within {options.timeout:g} s",
                             "give more time: --timeout SECONDS")
        if target.pid is not None and ("attached" in told or "problem" in told):
            _explain(target.pid, str(told.get("problem", "")))
        if "problem" in told:
            raise Unreadable(told["problem"], told["hint"])
        probe(gdb).check()  # most likely it has no Python
        last = printable(said.strip().rpartition("\n")[2], 300)
        raise Unreadable(f"GDB ended without an answer{': ' if last else ''}{last}", "`gdbext doctor` checks this GDB")


def _explain(pid: int, problem: str) -> None:
    """Say better than GDB does why a process cannot be looked at.

    :raises Unreadable: there is a better reason.
    """
    if not os.path.isdir(f"/proc/{pid}") or state_of(pid) in ("Z", "X"):
        raise Unreadable(f"process {pid} has ended while it was looked at", "look at another one, or at its core")
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


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a GDB, gently if that helps."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _memory_file(name: str) -> IO[bytes]:
    """A file without a name, so that nothing is left of it whatever happens."""
    return os.fdopen(os.memfd_create(f"gdbext-{name}"), "w+b", buffering=0)


def _lines(answer: IO[bytes]) -> dict[str, Any]:
    """All lines of an answer in one; the last one may be cut off."""
    answer.seek(0)
    told: dict[str, Any] = {}
    for line in answer.read().splitlines():
        try:
            told.update(json.loads(line))
        except ValueError:
            break
    return told
