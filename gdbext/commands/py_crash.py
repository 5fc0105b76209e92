"""`py-crash`: the cause of a crash."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from gdbext.commands.arguments import JSON
from gdbext.commands.base import Command, Result, filter_report
from gdbext.render.crash import crash_page
from gdbext.snapshot import Snapshot

HELP = """Explain a crash: the faulting access, the origin of the bad pointer, and suspect threads.

Usage: py-crash [--json]

Use this command on a core, or on a process stopped by a signal that terminates
programs (SIGSEGV, SIGABRT, ...). It shows:

  - the fault: the instruction, the address and what that is (null, a member of null,
    freed memory, the end of the stack, ...), the origin of the bad pointer, and the
    message of an abort;
  - the stack of the crashed thread in all languages, with variables where they matter;
  - threads that violate a rule of CPython (no thread state, GIL not held, use of dead
    objects);
  - suspects: threads that may have raced with the crashed one, because they ran the
    same function or class, or used the same object. Each is shown with the reasons.

If a handler of the signal was running (faulthandler), the command explains the fault
that it handled. For "recorded", "derived" and "inferred" see `help py-deadlocks`.

  --json   Print one JSON document (schema gdbext/1) and nothing else.

Example:
  $ gdb -batch -ex 'source /path/to/checkout/gdbext/gdbext' -ex py-crash EXECUTABLE CORE

Related: py-mixed-bt, py-threads-locks, py-deadlocks."""


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    report = snapshot.report(lambda thread: False)
    crash = snapshot.crash(report)
    report = replace(report, crash=crash)
    involved = {crash.thread, *(suspect.thread for suspect in crash.suspects),
                *(finding.thread for finding in crash.findings if finding.thread is not None)}
    threads = [thread for thread in report.threads if thread.number in involved]
    locks = {hold.lock for thread in threads for hold in thread.holds}
    locks |= {thread.waits.lock for thread in threads if thread.waits is not None}
    return Result(filter_report(report, involved, locks), ("runtimes", "threads", "locks", "crash", "problems"),
                  lambda text: crash_page(text, crash), report)


COMMAND = Command("py-crash", HELP, (JSON,), "nothing", _run)
