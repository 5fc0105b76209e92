"""The verb `dump`: takes the arguments of ``py-spy dump`` and prints its format, for programs that call py-spy."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Iterable
from dataclasses import replace

from gdbext.errors import UsageError
from gdbext.inferior.proc.status import living_task, process_tree
from gdbext.launcher.cli import add_snapshot_options, parse_options
from gdbext.launcher.output import say, write
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.snapshot import take_snapshot
from gdbext.launcher.status import NOTHING_FOUND, Unreadable
from gdbext.launcher.targets import pid, target_named
from gdbext.render.escape import as_text
from gdbext.render.py_spy import SEPARATOR, PySpy

NAME = "dump"
HELP = "stacks as py-spy dump prints them"
DESCRIPTION = """\
Takes the arguments of `py-spy dump` and prints stacks in its format. Programs that call
py-spy need no change if a link named py-spy leads to gdbext. If the program hangs, the
verdict is the last line; in JSON, each thread has a member gdbext."""
EXAMPLES = """\
examples:
  gdbext dump -p 4711
  gdbext dump -p 4711 --json --native
  gdbext dump -c core.4711 --locals
  ln -s "$(command -v gdbext)" ~/bin/py-spy

exit status: 0 the stacks were printed, 2 bad usage, 3 they could not be read"""

#: How many folders above a file are searched for ``__init__.py``.
_DEPTH = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("target", metavar="PID|CORE", nargs="?", help="the PID of a process, or a core")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("-p", "--pid", metavar="PID", type=pid, help="the process with this PID")
    group.add_argument("-c", "--core", metavar="FILE", help="a core")
    parser.add_argument("-j", "--json", action="store_true", help="print an array of threads as JSON")
    parser.add_argument("-n", "--native", action="store_true", help="list native frames, too")
    parser.add_argument("-l", "--locals", action="count", help="show the variables of Python frames")
    parser.add_argument("-s", "--subprocesses", action="store_true", help="also the descendants of the process")
    parser.add_argument("--nonblocking", action="store_false", dest="may_stop", help="as --no-stop")
    parser.add_argument("-F", "--full-filenames", action="store_true", help="do not shorten the names of files")
    add_snapshot_options(parser, without_gdb=True)


def run(options: argparse.Namespace) -> int:
    """Print the stacks; return the exit status."""
    native, options.native = options.native, "all"
    options.locals = bool(options.locals)
    how = replace(parse_options(options), stacks="none", alone=True)
    target = target_named(options.target, options.pid, options.core)
    if options.subprocesses and target.pid is None:
        raise UsageError("--subprocesses needs a PID: a core does not name child processes", "leave it out")
    spy = _dump(target, how, options, native)
    write(spy.document() if options.json else spy.text())
    children = process_tree(target.pid) if options.subprocesses and target.pid is not None else ()
    _write_children(list(children)[1:], {target.pid or 0: spy.name}, how, options, native)
    return NOTHING_FOUND


def _write_children(found: Iterable[tuple[int, int | None]], names: dict[int, str], how: Options,
                    options: argparse.Namespace, native: bool) -> None:
    """Print the processes of a family that are programs of Python."""
    for child, parent in found:
        try:
            spy = _dump(Target(pid=child), how, options, native)
        except Unreadable as error:
            say(f"gdbext dump: {error}")
            continue
        names[child] = spy.name
        if options.json:
            write(spy.document())
        else:
            write(as_text(["", SEPARATOR]))
            write(spy.text(names.get(parent or 0)))


def _dump(target: Target, how: Options, options: argparse.Namespace, native: bool) -> PySpy:
    seen = take_snapshot(target, how)
    if seen.report is None:
        raise seen.failure()
    if not seen.report.runtimes:
        raise Unreadable(f"{target.name} has no Python",
                         f"`gdbext report {target.pid or target.core}` shows its stacks")
    root = f"/proc/{living_task(target.pid)}/root" if target.pid is not None else str(options.sysroot or "")
    shorten = str if options.full_filenames else functools.lru_cache(None)(functools.partial(short_name, root=root))
    return PySpy(seen.report, shorten, native)


def short_name(path: str, root: str) -> str:
    """A file name without the folders above its package, which py-spy finds by ``__init__.py``."""
    folder = os.path.dirname(path)
    for _ in range(_DEPTH):
        if not folder.startswith("/") or folder == "/" or not os.path.exists(f"{root}{folder}/__init__.py"):
            break
        folder = os.path.dirname(folder)
    return path[len(folder):].lstrip("/") if folder.startswith("/") else os.path.basename(path) if "/" in path else path
