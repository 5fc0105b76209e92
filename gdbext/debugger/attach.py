"""The beginning of the GDB that `gdbext attach` starts: attach to a process or load a core, and show the verdict.

GDB's own output about files, threads and frames is dropped. If there is no process or core, GDB ends with an error.
"""

from __future__ import annotations

import re

import gdb

from gdbext.debugger.batch import end_gdb
from gdbext.debugger.before_pause import before_pause, read_before_pause
from gdbext.debugger.console import execute, interrupts_blocked, quoted, silenced
from gdbext.debugger.output import write, write_error
from gdbext.debugger.settings import settings
from gdbext.debugger.target import session
from gdbext.errors import INTERNAL, GdbextError
from gdbext.narrate import verdict
from gdbext.narrate.greeting import greeting
from gdbext.narrate.names import Facts
from gdbext.render.escape import as_text, printable
from gdbext.render.plain_text import one_line
from gdbext.render.style import COLOURS, Style
from gdbext.snapshot import take_snapshot
from gdbext.verdict.judge import verdict_of

#: Exit status for no answer; see docs/reference.md.
_NO_ANSWER = 3
# "ptrace: Operation not permitted.", "Permission denied"
_NOT_PERMITTED = re.compile(r"not permitted|denied")


def process(pid: int, executable: str | None, why: str) -> None:
    """Attach to a process; end GDB if that fails.

    :param executable: a file that has the symbols.
    :param why: the message if the kernel does not permit it.
    """
    before = read_before_pause(pid)
    _load(f"attach {pid}", executable, f"cannot attach to process {pid}", why)
    before_pause.keep(before)
    _greet(f"process {pid}")


def core(file: str, executable: str | None, name: str) -> None:
    """Load a core; end GDB if that fails.

    :param file: the path at which GDB can open it, unpacked.
    :param name: its name for the user.
    """
    _load(f"core-file {file}", executable, f"cannot load {printable(name)}", "")
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
        words = (verdict.verdict_title(facts.verdict), ": ", *verdict.sentence(facts))
        crashed = verdict_of(report).kind == "crash"
    except (GdbextError, gdb.error, *INTERNAL) as error:  # all of GDB remains useful
        tone, words = verdict.not_seen(f"{error}")
    except KeyboardInterrupt:
        tone, words = verdict.not_seen("interrupted")
    style = Style(settings().wants_colour)
    first, *others = map(one_line, greeting(name, words, crashed))
    write(as_text([style.mark(first, tone) if tone in COLOURS else first, *others]))
