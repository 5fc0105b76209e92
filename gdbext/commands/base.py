"""What a command is: a description that `debugger.command` makes a GDB command of."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence

from gdbext.commands.arguments import Option
from gdbext.model import Report
from gdbext.record import record
from gdbext.render.text import TextRenderer
from gdbext.snapshot import Snapshot


@record
class Result:
    """What a command found: the report, the JSON parts it is about, and its text.

    `whole` is the report that the text is made of, where the JSON has only a part of it.
    """

    report: Report
    parts: tuple[str, ...]
    text: Callable[[TextRenderer], str]
    whole: Report | None = None
    #: Files to write: the name and the text of each.
    files: tuple[tuple[str, str], ...] = ()


@record
class Command:
    """A command. `takes` says what `run` gets besides options: ``nothing``, ``address``, ``threads`` or ``thread``.

    `run` gets the snapshot, the options, and for an address the evaluated addresses (none or one); for ``thread`` it
    is the number of the selected thread instead. A command that can
    look twice has `confirmed`, which makes its result of the report of both looks.
    """

    name: str
    help: str
    options: tuple[Option, ...]
    takes: str
    run: Callable[[Snapshot, Namespace, Sequence[int]], Result]
    confirmed: Callable[[Report], Result] | None = None
