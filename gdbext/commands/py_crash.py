"""`py-crash`: why the program died."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from gdbext.commands.arguments import JSON
from gdbext.commands.base import Command, Result
from gdbext.commands.narrow import only
from gdbext.render.crash import crash_page
from gdbext.snapshot import Snapshot

HELP = """Explain a crash: what was touched, by what, and who else was there.

Usage: py-crash [--json]

For a core, or a process that was stopped by a signal which ends programs (SIGSEGV,
SIGABRT, ...). Shows the fault: the instruction, the address and what it is (null, a
member of null, freed memory, the end of the stack ...), where the bad pointer came
from, and the message of an abort; the stack in all languages with variables where it
matters; rules of Python that threads break (no thread state, no GIL, dead objects);
and threads that may have raced: in the same function or class, or using the same
object. These are suspects, each with the reasons.

If a handler of the signal was running (faulthandler), the fault below it is explained.
Evidence is shown as in py-deadlocks.

  --json   print one JSON document, schema gdbext/1, and nothing else

Example:
  $ gdb -batch -ex 'source /path/to/checkout/gdbext/gdbext' -ex py-crash EXECUTABLE CORE

Related: py-mixed-bt, py-threads-locks, py-deadlocks."""


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    report = snapshot.report(lambda thread: False)
    crash = snapshot.crash(report)
    report = replace(report, crash=crash)
    about = {crash.thread, *(suspect.thread for suspect in crash.suspects),
             *(finding.thread for finding in crash.findings if finding.thread is not None)}
    locks = {hold.lock for thread in report.threads if thread.number in about for hold in thread.holds}
    locks |= {thread.waits.lock for thread in report.threads if thread.number in about and thread.waits is not None}
    return Result(only(report, about, locks), ("runtimes", "threads", "locks", "crash", "problems"),
                  lambda text: crash_page(text, crash), report)


COMMAND = Command("py-crash", HELP, (JSON,), "nothing", _run)
