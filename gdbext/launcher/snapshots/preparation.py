"""What a GDB is told before it looks at a target; made by `containers` for processes and by `cores` for cores."""

from __future__ import annotations

from gdbext.record import record


@record
class Preparation:
    """How a GDB gets at one target.

    `settings` are GDB commands to be run before it loads anything. `core` is the name by which GDB opens the core,
    one that it can read without quotes whatever the file is called; `executable` is a path. `descriptors` are ours
    that GDB must inherit, since the names lead to them. `notes` is what a reader of the report should know.
    `temporary`: there are files that are to be removed when GDB has ended.
    """

    settings: tuple[str, ...] = ()
    core: str | None = None
    executable: str | None = None
    descriptors: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    temporary: bool = False
