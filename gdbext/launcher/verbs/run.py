"""The verb `run`: starts a program, and reports on it when it does not come to an end, or when a signal ends it."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from types import FrameType

from gdbext.errors import GdbextError, UsageError
from gdbext.inferior.proc.status import process_tree
from gdbext.inferior.signals import CORE_SIGNALS
from gdbext.launcher.api import report_on
from gdbext.launcher.cli import add_redact, duration
from gdbext.launcher.kernel_cores import core_is_piped, find_core, out_of_memory_kills, why_no_core
from gdbext.launcher.output import say, write_to_stderr
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.watching.activity import Stillness, read_sample
from gdbext.launcher.watching.tree_report import members, report_tree, send, write_page
from gdbext.redact import program_of, short_path
from gdbext.render.escape import as_text, concatenated, printable

NAME = "run"
HELP = "start a program, and report on it when it hangs or crashes"
DESCRIPTION = """\
Starts a program and waits for its end. Reports on it and its descendants, once, when it
has run for too long, or when none of its threads has done anything for too long; and
each time when the launcher receives a signal. The report goes to standard error. Until
then nothing reads or pauses the program. Without an option: --on-signal USR1.
If a signal ends the program, it says which, and explains the core or says how to get one."""
EXAMPLES = """\
examples:
  gdbext run --after 10m --exit -- python train.py
  gdbext run --idle 5m --html hangs -- ./server --port 80
  gdbext run --on-signal USR1 -- make check      then: kill -USR1 PID-OF-GDBEXT

exit status: that of the program; 128 + N if signal N has ended it; 124 if --exit has
ended it; 126 if it cannot be started, 127 if there is no such program; 2 bad usage"""

#: Exit statuses as those of timeout(1) and of shells.
ENDED, NOT_STARTED, NOT_FOUND = 124, 126, 127
#: How long the program may take to end after SIGTERM, in seconds.
_PATIENCE = 5.0
#: How often --idle samples: a part of its time, within bounds in seconds; and what share of a processor it may use.
_PART, _OFTEN, _SELDOM, _SHARE = 10, 0.1, 10.0, 0.01
#: prctl(2). Source: Linux 6.1 include/uapi/linux/prctl.h.
_PR_SET_PDEATHSIG, _PR_SET_PTRACER = 1, 0x59616D61
#: The values of ``si_code`` from which on the kernel has sent a signal, as for Ctrl-C at the terminal.
_BY_KERNEL = 1
_PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_SIGNALS = {name: getattr(signal, f"SIG{name}") for name in ("USR1", "USR2", "QUIT", "ALRM", "WINCH")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("--after", metavar="TIME", type=duration, help="report when the program has run for this time: "
                        "10m, 90s, 2h")
    parser.add_argument("--idle", metavar="TIME", type=duration,
                        help="report when no thread of the program has done anything for this time")
    parser.add_argument("--on-signal", metavar="SIGNAL", choices=tuple(_SIGNALS), dest="signal",
                        help=f"report when the launcher receives this signal: {', '.join(_SIGNALS)}")
    parser.add_argument("--exit", action="store_true", dest="ends",
                        help="after the report end the program and its descendants (SIGTERM, then SIGKILL)")
    parser.add_argument("--html", metavar="DIR", help="also write each report as a page into this folder")
    add_redact(parser)
    parser.add_argument("command", metavar="CMD", nargs=argparse.REMAINDER, help="the program with its arguments")


def run(options: argparse.Namespace) -> int:
    """Start the program and wait for it; return the exit status."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise UsageError("there is no program to run", "name it at the end: gdbext run --after 10m -- CMD ...")
    if options.signal is None and options.after is None and options.idle is None:
        options.signal = "USR1"
    asked = None if options.signal is None else _SIGNALS[options.signal]
    # these are waited for, so none comes at an inconvenient time
    waited = {signal.SIGCHLD, *_PASSED_ON, *([asked] if asked is not None else [])}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        for number in (signal.SIGCHLD, asked):
            if number is not None:
                signal.signal(number, _nothing)  # while a report is made, and so that it is not ignored
        return _Runner(command, options, asked, waited, before).run()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing(number: int, frame: FrameType | None) -> None:
    pass


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Runner:
    """A program from its start to its end."""

    def __init__(self, command: list[str], options: argparse.Namespace, asked: signal.Signals | None,
                 waited: Collection[int], mask: Collection[int]) -> None:
        self._command, self._options, self._asked = command, options, asked
        self._waited, self._mask = waited, mask
        self._how = Options(redact=options.redact, source=options.source)
        self._pages = 0
        self._dumped = False

    def run(self) -> int:
        self._started, self._kills = time.time(), out_of_memory_kills()
        try:
            self._process = subprocess.Popen(self._command, preexec_fn=self._prepare)
        except OSError as error:
            say(f"gdbext run: {printable(self._command[0], 300)} cannot be started: {error.strerror}")
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
        try:
            return self._wait()
        finally:
            self._end()

    def _prepare(self) -> None:
        """Runs in the new process before the program."""
        parent = os.getppid()
        prctl = ctypes.CDLL(None).prctl
        # it ends with the launcher, also if that is killed
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        # our children may trace it where Yama allows that only to ancestors
        prctl(_PR_SET_PTRACER, ctypes.c_ulong(parent), 0, 0, 0)
        for number in (signal.SIGTERM, signal.SIGHUP, self._asked):
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _wait(self) -> int:
        """Wait for the end of the program, and report when it is time."""
        options, now = self._options, time.monotonic()
        passed_on: set[int] = set()
        pid = self._process.pid
        deadline = None if options.after is None else now + options.after
        stillness, every = None, 0.0
        if options.idle is not None:
            stillness = Stillness(lambda: read_sample(member for member, _ in process_tree(pid)), now)
            every = min(max(options.idle / _PART, _OFTEN), _SELDOM)
        sample_at = None if stillness is None else now + every
        while not self._has_ended():
            times = [at for at in (deadline, sample_at) if at is not None]
            left = max(min(times) - time.monotonic(), 0.0) if times else 3600.0
            received = signal.sigtimedwait(self._waited, left)
            now, why = time.monotonic(), None
            if received is not None and received.si_signo == self._asked:
                why = f"has received SIG{options.signal}"
            elif received is not None and received.si_signo in _PASSED_ON:
                passed_on.add(received.si_signo)
                # those of the terminal reach the program without us
                if received.si_code < _BY_KERNEL:
                    self._process.send_signal(received.si_signo)
                continue
            elif received is not None:
                continue
            elif deadline is not None and now >= deadline:
                why, deadline = f"has run for {options.after:g} s", None
            elif stillness is not None and sample_at is not None and now >= sample_at:
                before = time.thread_time()
                still = stillness.update(now)
                # many threads take longer to read, but the report should not be late by more than the time given
                sample_at = now + max(every, min((time.thread_time() - before) / _SHARE, options.idle))
                if still >= options.idle:
                    why, sample_at, stillness = f"has done nothing for {options.idle:g} s", None, None
            if why is not None and self._process.poll() is None:
                self._report(why)
                if options.ends and self._process.poll() is None:
                    self._end()
                    return ENDED
        status = self._process.returncode
        if status >= 0:
            return status
        if -status not in passed_on:
            self._explain_death(-status)
        return 128 - status

    def _has_ended(self) -> bool:
        """Whether the program has ended; remembers whether the kernel says that it has written a core."""
        try:
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            ended = None
        self._dumped = self._dumped or ended is not None and ended.si_code == os.CLD_DUMPED
        return self._process.poll() is not None

    def _explain_death(self, number: int) -> None:
        """Say which signal has ended the program; explain its core, or say how to get one."""
        pid = self._process.pid
        with self._interruptible():
            say(f"gdbext run: process {pid} was ended by {_name(number)}" + self._killer(number))
            if number not in CORE_SIGNALS:
                return
            core = find_core(pid, os.getcwd(), self._started) if self._dumped or core_is_piped() else None
            if core is None:
                say(f"gdbext run: {why_no_core()}")
                return
            name = printable(short_path(str(core)) if self._how.redact else str(core), 300)
            try:
                report = report_on(Target(core=core), self._how)
                write_to_stderr(concatenated([as_text([f"gdbext run: its core is {name}"]), report.text]))
            except GdbextError as error:
                say(f"gdbext run: its core is {name}; no report: {error}"
                    f"{'; ' if error.hint else ''}{error.hint}")
            except KeyboardInterrupt:
                say("gdbext run: the report was interrupted")

    def _killer(self, number: int) -> str:
        """What may have sent SIGKILL, which leaves no core."""
        if number != signal.SIGKILL:
            return ""
        kills = out_of_memory_kills()
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        used = f"; its largest process used {most:,} MiB of memory"
        if kills is not None and self._kills is not None and kills > self._kills:
            return f": the kernel has killed {kills - self._kills:,} since then because memory ran out{used}"
        return f": by a process, not by the kernel for lack of memory{used}" if kills is not None else used

    def _report(self, why: str) -> None:
        pid = self._process.pid
        with self._interruptible():
            try:
                report = report_tree(pid, self._how)
                write_to_stderr(concatenated([as_text([f"gdbext run: process {pid} {why}"]), report.text]))
                if self._options.html is not None:
                    self._pages += 1
                    name = f"{os.path.basename(self._command[0])}-{pid}-{self._pages}"
                    page = write_page(report, self._options.html, name, f"gdbext: {self._title()}")
                    write_to_stderr(as_text([f"gdbext run: the page is {page}"]))
            except GdbextError as error:
                say(f"gdbext run: no report: {error}{'; ' if error.hint else ''}{error.hint}")
            except OSError as error:
                say(f"gdbext run: the report cannot be written: {error.strerror or error}")
            except KeyboardInterrupt:  # the program gets it too
                say("gdbext run: the report was interrupted")

    def _title(self) -> str:
        command = " ".join(self._command)
        return program_of(command) if self._how.redact else command

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Handle signals in place of waiting for them, so that GDB and the launcher can be ended."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)

    def _end(self) -> None:
        """End the program and its descendants, if it still runs."""
        if self._process.poll() is not None:
            return
        tree = members(self._process.pid)
        send(signal.SIGTERM, tree.items())
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        send(signal.SIGKILL, tree.items())
        self._process.wait()
