"""The target that a command line names: a PID, a core, or a pattern for processes."""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path

from gdbext.errors import UsageError
from gdbext.launcher.snapshots.cores import STANDARD_INPUT
from gdbext.launcher.snapshots.options import Target
from gdbext.launcher.snapshots.rights import container_kind
from gdbext.launcher.status import Unreadable
from gdbext.render.escape import printable

#: How many processes a message names.
_MANY = 10


def add_target(verb: argparse.ArgumentParser) -> None:
    """Add the process or core, and the executable of the core."""
    verb.add_argument("target", metavar="PID|CORE", nargs="?", help="the PID of a process, or a core; ./4711 is a "
                      "file, - is standard input")
    verb.add_argument("executable", metavar="EXECUTABLE", nargs="?", type=Path,
                      help="the executable that made the core, if gdbext does not find it")
    group = verb.add_mutually_exclusive_group()
    group.add_argument("--pid", metavar="PID", type=pid, help="the process with this PID")
    group.add_argument("--core", metavar="FILE", help="this core, whatever its name is; - is standard input")
    group.add_argument("--name", metavar="PATTERN", type=pattern,
                       help="every process whose command line or name contains a match of this regular expression, "
                       "except gdbext and the processes that started it")
    verb.add_argument("--namespace", metavar="PID", type=pid,
                      help="the target's number is its number in the PID namespace (the container) of process PID")


def parse_target(options: argparse.Namespace) -> Target:
    """The only target that the command line names.

    :raises GdbextError: it names several, or none that exists.
    """
    targets = parse_targets(options)
    if len(targets) > 1:
        listed = ", ".join(str(target.pid) for target in targets[:_MANY])
        raise UsageError(f"--name {printable(options.name.pattern)} matches {len(targets):,} processes, and this needs "
                         f"one: {listed}{', ...' * (len(targets) > _MANY)}", "name one: --pid PID")
    return targets[0]


def parse_targets(options: argparse.Namespace) -> list[Target]:
    """The targets that the command line names; only ``--name`` may name more than one.

    :raises GdbextError: a process is not in the namespace that the command line names, or no process matches.
    """
    text, executable = options.target, options.executable
    if options.core is not None and text is not None and executable is None:
        # the executable is the only argument without an option
        executable, text = Path(text), None
    named = [text, options.pid, options.core, options.name]
    if named.count(None) == len(named):
        raise UsageError("there is no target", "name a PID or a core, or use --name")
    if named.count(None) < len(named) - 1:
        raise UsageError(f"there is more than one target: {printable(str(text))} and that of an option",
                         "name only one")
    process = options.pid if options.pid is not None else int(text) if text is not None and text.isdecimal() else None
    if options.namespace is not None and process is None:
        raise UsageError("--namespace needs a PID", "leave it out")
    if options.name is not None:
        return [Target(pid=pid) for pid in _processes_named(options.name)]
    if process is None:
        core = str(options.core if text is None else text)
        return [Target(core=Path(STANDARD_INPUT if core == "-" else core), executable=executable)]
    if options.namespace is not None:
        from gdbext.launcher.snapshots.containers import in_namespace_of

        process = in_namespace_of(process, options.namespace)
    return [Target(pid=process, executable=executable)]


def target_named(text: str | None, number: int | None, core: str | None) -> Target:
    """The target that an argument or one of the options ``--pid`` and ``--core`` names.

    :raises UsageError: there is none, or more than one.
    """
    if [text, number, core].count(None) != 2:
        raise UsageError("there must be one target", "name a PID or a core")
    if number is None and text is not None and text.isdecimal():
        number = int(text)
    return Target(pid=number) if number is not None else Target(core=Path(str(core if text is None else text)))


def _processes_named(wanted: re.Pattern[str]) -> list[int]:
    from gdbext.launcher.named_processes import find_processes

    found = find_processes(wanted)
    if not found:
        raise Unreadable(f"no process matches {printable(wanted.pattern)}",
                         "`ps -e` lists the processes"
                         + ("; inside a container only its own are visible" if container_kind() else ""))
    return found


def pid(text: str) -> int:
    """Parse a PID; whether the process exists is not checked."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{printable(text, 100)} is not the number of a process")
    return int(text)


def pattern(text: str) -> re.Pattern[str]:
    """Parse a regular expression."""
    if not text:
        raise argparse.ArgumentTypeError("an empty pattern matches every process")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about expressions that may get another meaning
            return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{printable(text, 100)} is not a regular expression: {error}") from None
