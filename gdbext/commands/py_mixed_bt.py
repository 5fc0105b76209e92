"""`py-mixed-bt`: the stack of the selected thread in all languages, with what leads from one to the other."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from gdbext.commands.arguments import JSON, option
from gdbext.commands.base import Command, Result
from gdbext.commands.narrow import only
from gdbext.errors import ThreadUnavailable, UsageError
from gdbext.snapshot import Snapshot

HELP = """Show the stack of the selected thread in all languages.

Usage: py-mixed-bt [-full] [--json] [COUNT]

Python frames stand in place of the interpreter's own, with file, line and source
line; what only leads from one language to the other (a ctypes call, a callback, the
import machinery, the start of a thread) is one line that says so. Nothing of the
target is called, nor are pretty-printers.

  COUNT    show the innermost COUNT entries only, with a negative COUNT the outermost
  -full    show the local variables of each frame too
  --json   print one JSON document, schema gdbext/1, and nothing else

How much of a variable is shown: `show gdbext`.

Example:
  (gdb) thread 3
  (gdb) py-mixed-bt -full 5

Related: py-threads-locks, bt."""

OPTIONS = (JSON, option("--full", "-full", action="store_true", help="show local variables too"))
_COUNT = re.compile(r"-?[0-9]{1,6}")


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    if not addresses:
        raise ThreadUnavailable("no thread is selected; try `info threads`, then `thread 1`")
    (number,) = addresses
    count = _count(arguments.rest)
    mixed = snapshot.mixed(number, snapshot.limits if arguments.full else None)
    report = snapshot.report(lambda thread: False)
    thread = report.thread(number)
    assert thread is not None
    variables = tuple(mixed.variables.get(index, ()) for index in range(len(mixed.frames)))
    thread = replace(thread, stack=mixed.frames, parts=mixed.parts, unmerged=mixed.unmerged,
                     variables=variables if arguments.full else None)
    report = replace(report, threads=tuple(thread if other.number == number else other for other in report.threads))
    locks = {hold.lock for hold in thread.holds} | ({thread.waits.lock} if thread.waits else set())
    return Result(only(report, {number}, locks), ("runtimes", "threads", "locks", "problems"),
                  lambda text: text.mixed(thread, mixed, count), report)


def _count(words: Sequence[str]) -> int | None:
    if not words:
        return None
    if len(words) > 1 or not _COUNT.fullmatch(words[0]) or int(words[0]) == 0:
        raise UsageError(f"{words[0][:40]!r} is no number of frames", "write py-mixed-bt 10, or py-mixed-bt -10")
    return int(words[0])


COMMAND = Command("py-mixed-bt", HELP, OPTIONS, "thread", _run)
