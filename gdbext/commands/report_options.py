"""How a report is made and shown: what the launcher and the process that takes a snapshot both have to know."""

from __future__ import annotations

from typing import Final

from gdbext.record import record


@record
class ReportOptions:
    """The options that do not depend on how the target is reached; this is the only place of their defaults.

    `each` shows each thread by itself, also those with the same stack. `stacks` is how much of each stack is shown:
    ``full``, ``top`` or ``none``; `native` says whose stacks have native frames: ``all``, ``verdict`` or ``none``.
    `width` is the maximum width of a line, in columns, None: unlimited. With `object_names` an object that has a lock
    is named by the value of an attribute. `may_stop` says whether, without GDB, threads of a process may be stopped for
    a moment. With `alone` no other process is read. A process is paused for at most `max_pause` seconds. With
    `locals` stacks have the variables of Python frames. With `redact` private details are taken out, and source lines
    unless `source`. With `text_only` document and graph are left out; for many threads they take as long as all else.
    """

    each: bool = False
    stacks: str = "full"
    native: str = "all"
    colour: bool = False
    width: int | None = None
    object_names: bool = True
    may_stop: bool = True
    alone: bool = False
    max_pause: float = 10.0
    text_only: bool = False
    locals: bool = False
    redact: bool = False
    source: bool = False


DEFAULTS: Final = ReportOptions()
