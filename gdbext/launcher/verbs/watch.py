"""The verb `watch`: watches processes without pausing them, and reports on each new hang once."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gdbext.errors import GdbextError, UsageError
from gdbext.inferior.proc.process import read_command_line, read_name
from gdbext.inferior.proc.status import start_of, state_of
from gdbext.launcher import targets
from gdbext.launcher.cli import add_snapshot_options, duration, number, parse_options
from gdbext.launcher.named_processes import find_processes
from gdbext.launcher.output import say, write
from gdbext.launcher.snapshots.classes import signature
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.snapshot import Snapshot, take_snapshot
from gdbext.launcher.status import FOUND, NO_ANSWER, NO_GDB, OUTSIDE, NoGdb, Unreadable, worst
from gdbext.launcher.watching.activity import Stillness, read_sample
from gdbext.narrate import watching as words
from gdbext.narrate.names import Facts
from gdbext.redact import program_of
from gdbext.render.escape import as_text, concatenated, json_line, printable
from gdbext.render.output_file import write_private
from gdbext.render.plain_text import one_line

NAME = "watch"
HELP = "watch processes, and report on each new hang once"
DESCRIPTION = """\
Samples how much time each thread uses, without pausing anything. Takes a report of a
process in which nothing moves (or one thread burns and nothing else moves), confirms a
hang with a second report, and hands it on: as text or JSON on standard output, as a
page, to a command. The same hang of a process is not handed on again. Ends when all
processes that are named by PID have ended. What is watched, and what each sample and
report has found, are lines of standard error."""
EXAMPLES = """\
examples:
  gdbext watch 4711
  gdbext watch --name 'celery.*worker' --for 10m --html /var/tmp/hangs --keep 20
  gdbext watch 4711 --json --exec 'mail -s "$GDBEXT_PID hangs" ops@example.org'

exit status: 0 no hang was found before the processes ended, 1 a hang that does not end
by itself, 2 bad usage, 3 a process could not be read, 4 no GDB or a GDB without Python,
5 a hang that may end when something outside of the process happens; the first of 1, 5,
4, 3, 0 that occurs"""

#: How long a process runs between a report and the one that confirms it, and how long a command may take, in seconds.
_BETWEEN, _PATIENCE = 1.0, 300.0
#: How many hangs of one process are remembered.
_MANY = 100
_PAGES = "hang-{pid}-{time}.html"


@dataclass
class _Watched:
    """A process: its start time, its activity, since when it was still at its last report, and its known hangs."""

    started: int
    stillness: Stillness
    reported: float | None = None
    known: list[str] = field(default_factory=list)
    #: Its PID and program, and for how long nothing has moved in seconds.
    name: str = ""
    still: float = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("pids", metavar="PID", nargs="*", type=targets.pid, help="the processes to watch")
    parser.add_argument("--name", metavar="PATTERN", type=targets.pattern, help="every process whose command line "
                        "or name contains a match of this regular expression, also those that start later")
    parser.add_argument("--every", metavar="TIME", type=duration, default=60.0,
                        help="how often processes are sampled (default: 60s)")
    parser.add_argument("--for", metavar="TIME", type=duration, default=300.0, dest="still",
                        help="how long nothing must have moved (default: 5m)")
    parser.add_argument("--html", metavar="DIR", help="write each hang as a page into this folder")
    parser.add_argument("--keep", metavar="N", type=number, default=100,
                        help="with --html: how many pages are kept, the newest ones (default: 100)")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document per line, schema gdbext/1, instead of text")
    parser.add_argument("--exec", metavar="CMD", dest="command", help="run this command of the shell for each hang, "
                        "with the JSON on standard input, and $GDBEXT_PID, $GDBEXT_STATUS and $GDBEXT_HTML")
    parser.add_argument("--quiet", action="store_true",
                        help="no lines about what is watched and what was found, only hangs and failures")
    add_snapshot_options(parser, without_gdb=True)


def run(options: argparse.Namespace) -> int:
    """Watch until the processes have ended; return the exit status."""
    if bool(options.pids) == (options.name is not None):
        raise UsageError("name either PIDs or a pattern", "gdbext watch PID, or gdbext watch --name PATTERN")
    for each in options.pids:
        if start_of(each) is None:
            raise Unreadable(f"there is no process {each}", "`ps -e` lists the processes")
    return _Watcher(options, parse_options(options)).run()


class _Watcher:
    """Watches processes until they have ended."""

    def __init__(self, options: argparse.Namespace, how: Options,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._options, self._how, self._clock = options, how, clock
        self._watched: dict[int, _Watched] = {}
        self._statuses: set[int] = set()

    def run(self) -> int:
        options = self._options
        self._tell(words.begins(options.every, options.still))
        while True:
            begin = self._clock()
            if not self._sample() and options.name is None:
                return worst(self._statuses)
            self._tell(words.sample([(each.name, each.still) for each in self._watched.values()]))
            time.sleep(max(begin + options.every - self._clock(), 0.0))

    def _tell(self, line: str) -> None:
        if not self._options.quiet:
            say(f"gdbext watch: {time.strftime('%H:%M:%S')} {line}")

    def _sample(self) -> bool:
        """Sample all processes and report on those that have become still; whether any is left."""
        wanted = self._options.pids if self._options.name is None else find_processes(self._options.name)
        before = dict(self._watched)
        for gone in set(self._watched) - set(wanted):
            del self._watched[gone]
        left = False
        for pid in wanted:
            started, now = start_of(pid), self._clock()
            watched = self._watched.get(pid)
            if started is None or state_of(pid) in ("Z", "X") or (
                    watched is not None and watched.started != started and self._options.name is None):
                self._watched.pop(pid, None)
                continue
            left = True
            if watched is None or watched.started != started:
                self._watched[pid] = _Watched(started, Stillness(functools.partial(read_sample, [pid]), now, True),
                                              name=_name(pid))
        self._tell_changes(before)
        # after the lines on what is watched
        for pid, watched in [*self._watched.items()]:
            if before.get(pid) is not watched:
                continue
            watched.still = watched.stillness.update(self._clock())
            if watched.still >= self._options.still and watched.reported != watched.stillness.since:
                watched.reported = watched.stillness.since
                self._tell(f"{watched.name}: {self._examine(pid, watched)}")
        return left

    def _tell_changes(self, before: Mapping[int, _Watched]) -> None:
        """Say which processes are watched from now on, and which have ended."""
        for line, some, others in ((words.ended, before, self._watched), (words.watches, self._watched, before)):
            names = [each.name for pid, each in some.items() if others.get(pid) is not each]
            if names:
                self._tell(line(names))

    def _examine(self, pid: int, watched: _Watched) -> str:
        """Report on a process that is still, if it hangs and this hang is new; what was found."""
        first = self._take(pid)
        if first.status not in (FOUND, OUTSIDE):
            return words.no_hang(_verdict(first))
        time.sleep(_BETWEEN)
        second = self._take(pid)
        key = _key(second)
        if second.status != first.status or start_of(pid) != watched.started or key is None or key != _key(first):
            return words.no_hang(None)
        if key in watched.known:
            return words.hang(False, _verdict(second))
        watched.known = [*watched.known[1 - _MANY:], key]
        self._statuses.add(second.status)
        self._hand_on(pid, second)
        return words.hang(True, _verdict(second))

    def _take(self, pid: int) -> Snapshot:
        seen = take_snapshot(Target(pid=pid), self._how)
        if seen.status == NO_GDB:
            raise NoGdb(seen.problem or "no GDB", seen.hint or "")
        if seen.document is None and start_of(pid) is not None:
            say(f"gdbext watch: {seen.problem or 'no answer'}{'; ' if seen.hint else ''}{seen.hint or ''}")
            self._statuses.add(seen.status)
        return seen

    def _hand_on(self, pid: int, seen: Snapshot) -> None:
        page = self._write_page(pid, seen) if self._options.html is not None else ""
        write(json_line(seen.document) if self._options.json else concatenated([seen.text, as_text([""])]))
        sys.stdout.flush()
        if self._options.command is not None:
            _execute(self._options.command, seen.document or {}, {
                "GDBEXT_PID": str(pid), "GDBEXT_STATUS": str(seen.status), "GDBEXT_HTML": page})

    def _write_page(self, pid: int, seen: Snapshot) -> str:
        from gdbext.render.html import html_page

        folder = Path(self._options.html).absolute()
        path = folder / _PAGES.format(pid=pid, time=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
        page = html_page([seen.for_page()], f"gdbext: {seen.target}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_private(str(path), page)
            pages = sorted((at, each) for each in folder.glob(_PAGES.format(pid="*", time="*"))
                           if (at := _written_at(each)) is not None)
            for _, old in pages[:-self._options.keep]:
                with contextlib.suppress(OSError):
                    old.unlink()
        except (GdbextError, OSError) as error:  # the folder may be writable again at the next hang
            why = f"cannot write {printable(str(path))}: {error.strerror}" if isinstance(error, OSError) else error
            say(f"gdbext watch: {why}; name another folder")
            self._statuses.add(NO_ANSWER)
            return ""
        return str(path)


def _written_at(page: Path) -> int | None:
    """When a page was written, in ns; None for anything else that has the name of a page."""
    try:
        state = page.lstat()
    except OSError:
        return None
    return state.st_mtime_ns if stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() else None


def _name(pid: int) -> str:
    """The PID and program of a process, without its arguments."""
    return f"{pid} ({printable(program_of(read_command_line(pid) or read_name(pid) or '?'), 100)})"


def _verdict(seen: Snapshot) -> str:
    """The verdict on one line; why there is none if it could not be read."""
    from gdbext.narrate.brief import one_line as verdict_of

    return one_line(verdict_of(Facts(seen.report))) if seen.report is not None else printable(
        seen.problem or "no answer", 300)


def _key(seen: Snapshot) -> str | None:
    """What happened, to compare with other reports of the same process."""
    return None if seen.report is None else signature(seen.report).key


def _execute(command: str, document: Mapping[str, Any], variables: Mapping[str, str]) -> None:
    """Run a command of the shell; a failure is a line of standard error."""
    try:
        done = subprocess.run(["/bin/sh", "-c", command], input=json.dumps(document).encode(), timeout=_PATIENCE,
                              stdout=sys.stderr, env={**os.environ, **variables}, check=False)
        if done.returncode:
            say(f"gdbext watch: the command of --exec has ended with status {done.returncode}")
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"gdbext watch: the command of --exec: {printable(str(error), 300)}")
