"""The verb `attach`: an interactive GDB with gdbext in it."""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess

from gdbext.launcher.cli import add_snapshot_options, parse_options
from gdbext.launcher.output import say
from gdbext.launcher.snapshots.by_gdb import opening
from gdbext.launcher.snapshots.finding import find_gdb, probe
from gdbext.launcher.snapshots.limit import Limit
from gdbext.launcher.snapshots.programs import environment, source_line
from gdbext.launcher.snapshots.rights import why_not_attached
from gdbext.launcher.snapshots.snapshot import prepared
from gdbext.launcher.status import NO_GDB, Unreadable
from gdbext.launcher.targets import add_target, parse_target

NAME = "attach"
HELP = "GDB on a process or core, with gdbext in it"
DESCRIPTION = """\
Starts GDB at this terminal, with gdbext loaded, on a process or on a core for which
the executable and the libraries have been found. It begins with the verdict on one
line. The process is paused until `continue`, `detach` or `quit`."""
EXAMPLES = """\
examples:
  gdbext attach 4711
  gdbext attach core.zst --search /mnt/build
  (gdb) py-deadlocks"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_target(parser)
    add_snapshot_options(parser, timeout=False)


def run(options: argparse.Namespace) -> int:
    """Become GDB, or wait for it and return its exit status."""
    target, chosen = parse_target(options), parse_options(options)
    gdb = find_gdb(chosen.gdb)
    found = probe(gdb)
    found.check()
    why = why_not_attached(target.pid) if target.pid is not None else None
    if why is not None:
        raise Unreadable(f"GDB cannot attach to process {target.pid}: {why}",
                         f"see it without GDB: gdbext report {target.pid}")
    with prepared(target, chosen, Limit(math.inf)) as preparation:
        for note in preparation.notes:
            say(f"gdbext attach: {note}")
        argv = [gdb, "-q"]
        # GDB 10 and 11 lack this setting, and complain
        asking = (f"set debuginfod enabled {'on' if chosen.debuginfod else 'off'}",) if found.release >= 12 else ()
        # a file in the current folder that anybody may have written, on which GDB comments
        for command in ("set auto-load local-gdbinit off", *asking, *preparation.settings, source_line()):
            argv += ["-iex", command]
        if not chosen.object_names:
            argv += ["-iex", "set gdbext object-names off"]
        argv += ["-ex", opening(target, preparation)]
        for descriptor in preparation.descriptors:
            os.set_inheritable(descriptor, True)
        surroundings = environment(chosen.debuginfod, language=False)
        if not preparation.temporary:
            try:
                os.execve(gdb, argv, surroundings)
            except OSError as error:
                say(f"gdbext attach: {gdb} does not run: {error.strerror}; name another one: --gdb FILE")
                return NO_GDB
        # files must be removed afterwards; Ctrl-C is for GDB
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return subprocess.call(argv, env=surroundings, close_fds=False, preexec_fn=_with_interrupts)


def _with_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
