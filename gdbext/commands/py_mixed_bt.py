"""`py-mixed-bt`: the stack of the selected thread in all languages, with the transitions between them."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from gdbext.commands.arguments import JSON, Option
from gdbext.commands.base import Command, Result, filter_report
from gdbext.errors import ThreadUnavailable, UsageError
from gdbext.snapshot import Snapshot

HELP = """Print the stack of the selected thread in all languages.

Usage: py-mixed-bt [-full] [--json] [COUNT]

Python frames, with file, line and source line, replace the interpreter's own frames.
A transition between languages (a ctypes call, a callback, the import machinery, the
start of a thread) is shown as one line. The command neither calls functions of the
target nor pretty-printers.

  COUNT    Show only the innermost COUNT entries; if COUNT is negative, the outermost.
  -full    Show the local variables of each frame too.
  --json   Print one JSON document (schema gdbext/1) and nothing else.

`set gdbext locals-depth`, `locals-items` and `locals-width` limit how much of a
variable is shown.

Example:
  (gdb) thread 3
  (gdb) py-mixed-bt -full 5

Related: py-threads-locks, bt."""

OPTIONS = (JSON, Option("--full", "-full", action="store_true"))
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
    return Result(filter_report(report, {number}, locks), ("runtimes", "threads", "locks", "problems"),
                  lambda text: text.mixed(thread, mixed, count), report)


def _count(words: Sequence[str]) -> int | None:
    if not words:
        return None
    if len(words) > 1 or not _COUNT.fullmatch(words[0]) or int(words[0]) == 0:
        raise UsageError(f"{words[0][:40]!r} is not a number of frames", "write py-mixed-bt 10, or py-mixed-bt -10")
    return int(words[0])


COMMAND = Command("py-mixed-bt", HELP, OPTIONS, "thread", _run)
