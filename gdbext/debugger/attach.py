"""The beginning of a GDB that the launcher starts: attach to a process or load a core.

`gdbext attach` then shows the verdict. In batch mode, for `gdbext report --gdb`, lines of JSON say instead when GDB
attached and detached, in seconds of CLOCK_MONOTONIC, and SIGTERM ends the next command, so that the process resumes:

    {"attaching": 123.4}
    {"attached": 123.5}
    {"detached": 123.7}

GDB's own output about files, threads and frames is dropped. If there is no process or core, GDB ends with an error.
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
from types import FrameType

import gdb

from gdbext.debugger.batch import end_gdb, in_batch_mode
from gdbext.debugger.before_pause import before_pause, read_before_pause
from gdbext.debugger.console import execute, interrupts_blocked, quoted, silenced
from gdbext.debugger.output import write, write_error
from gdbext.debugger.settings import settings
from gdbext.debugger.target import session
from gdbext.errors import INTERNAL, GdbextError
from gdbext.narrate import sentences, verdict
from gdbext.narrate.greeting import greeting
from gdbext.narrate.names import Facts
from gdbext.render.escape import as_text, json_line, printable
from gdbext.render.plain_text import one_line
from gdbext.render.style import COLOURS, Style
from gdbext.snapshot import take_snapshot
from gdbext.verdict.judge import verdict_of

#: Exit status for no answer; see docs/reference.md.
_NO_ANSWER = 3
# "ptrace: Operation not permitted.", "Permission denied"
_NOT_PERMITTED = re.compile(r"not permitted|denied")
#: The interval at which an interrupt is repeated, in seconds.
_AGAIN = 0.1


def process(pid: int, executable: str | None, why: str) -> None:
    """Attach to a process; end GDB if that fails.

    :param executable: a file that has the symbols.
    :param why: the message if the kernel does not permit it.
    """
    if executable is not None:
        with contextlib.suppress(gdb.error, GdbextError), silenced():  # who may not read it may not attach either
            execute(f"file {quoted(executable)}")
    batch = in_batch_mode()
    if batch:
        _set_interrupts(True)
    before = read_before_pause(pid)  # last, since the threads run on
    started = time.monotonic()
    if batch:
        _write_time("attaching", started)
    _load(f"attach {pid}", None, f"cannot attach to process {pid}", why)
    before_pause.keep(before)
    if batch:
        now = time.monotonic()
        _write_time("attached", now)
        execute(f"set gdbext max-pause {max(round(settings().max_pause - (now - started)), 1)}")
    else:
        _greet(f"process {pid}")


def detach() -> None:
    """Detach from the process, in batch mode."""
    _set_interrupts(False)  # nothing but the end of GDB may come before
    with contextlib.suppress(gdb.error):  # the process has ended
        execute("detach")
    _write_time("detached", time.monotonic())


def core(file: str, executable: str | None, name: str) -> None:
    """Load a core; end GDB if that fails.

    :param file: the path at which GDB can open it, unpacked.
    :param name: its name for the user.
    """
    _load(f"core-file {file}", executable, f"cannot load {printable(name)}", "")
    if not in_batch_mode():
        _greet(name)


def _load(command: str, executable: str | None, failure: str, why: str) -> None:
    try:
        with interrupts_blocked(), silenced():
            if executable is not None:
                execute(f"file {quoted(executable)}")
            execute(command)
    except (gdb.error, GdbextError) as error:
        message = printable(str(error).strip())
        problem = why if why and _NOT_PERMITTED.search(message) else f"{failure}: {message}"
        write_error(f"gdbext attach: {problem}")
        end_gdb(_NO_ANSWER)


def _greet(name: str) -> None:
    """Show the verdict on one line, and what to type next."""
    crashed = False
    try:
        with session() as target:
            snapshot = take_snapshot(target, settings().object_names, target.budget, target.known_code)
            report = snapshot.judged_report(lambda thread: False)
            if target.kind == "core":
                report = snapshot.with_crash(report)
        facts = Facts(report)
        tone = verdict.tone(facts.verdict)
        words = (sentences.verdict_title(facts.verdict), ": ", *sentences.sentence(facts))
        crashed = verdict_of(report).kind == "crash"
    except (GdbextError, gdb.error, *INTERNAL) as error:  # all of GDB remains useful
        tone, words = verdict.not_seen(f"{error}")
    except KeyboardInterrupt:
        tone, words = verdict.not_seen("interrupted")
    style = Style(settings().wants_colour)
    first, *others = map(one_line, greeting(name, words, crashed))
    write(as_text([style.mark(first, tone) if tone in COLOURS else first, *others]))


def _write_time(what: str, seconds: float) -> None:
    """Write a line of JSON with a time of CLOCK_MONOTONIC."""
    write(json_line({what: seconds}))
    gdb.flush()


def _set_interrupts(enabled: bool) -> None:
    """Have SIGTERM interrupt commands, or ignore it. GDB's own handler may leave the process stopped."""
    if not enabled:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, _interrupt if enabled else signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # repeated, since GDB drops exceptions of Python code that it calls itself, as it does to unwind
    signal.setitimer(signal.ITIMER_REAL, _AGAIN)
    raise KeyboardInterrupt
