"""The description of a command, of which `debugger.command` makes a GDB command, and its result."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from gdbext.commands.arguments import Option
from gdbext.model import Report
from gdbext.record import record
from gdbext.render.escape import Safe
from gdbext.render.text import TextRenderer
from gdbext.snapshot import Snapshot


@record
class Result:
    """The result of a command: `report` with the `parts` of it that the JSON has, and the text.

    `whole` is the report for the text, if the JSON has less than that.
    """

    report: Report
    parts: tuple[str, ...]
    text: Callable[[TextRenderer], Safe]
    whole: Report | None = None
    #: Name and content of each file to write.
    files: tuple[tuple[str, Safe], ...] = ()


@record
class Command:
    """A command. `takes` names its arguments besides options: ``nothing``, ``address``, ``threads`` or ``thread``.

    The last argument of `run` has at most one number: for ``address`` the evaluated address, for ``thread`` the
    number of the selected thread. A command with an option ``--confirm`` has `confirmed`, which makes the result from
    the report of two snapshots.
    """

    name: str
    help: str
    options: tuple[Option, ...]
    takes: str
    run: Callable[[Snapshot, Namespace, Sequence[int]], Result]
    confirmed: Callable[[Report], Result] | None = None


def filter_report(report: Report, threads: Collection[int], locks: Collection[str]) -> Report:
    """Reduce a report to these threads, and to these locks and those of its deadlocks."""
    kept = {edge.lock for deadlock in report.deadlocks for edge in deadlock.edges} | set(locks)
    return replace(report, threads=tuple(thread for thread in report.threads if thread.number in threads),
                   locks=tuple(lock for lock in report.locks if lock.id in kept))
