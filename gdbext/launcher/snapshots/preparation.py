"""What a GDB needs to open a target; `containers` makes it for processes, `cores` for cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gdbext.record import record


@record
class Preparation:
    """How a GDB opens one target.

    `settings` are GDB commands to run before it loads anything. `core` is a name of the core that needs no quotes in
    GDB commands; `executable` is a path. GDB must inherit `descriptors`, to which these names refer. `notes` are for
    the reader of the report. `temporary` says that files must be removed after GDB has ended. `places` has the paths on
    this machine of a core's files, by their paths in the core; they are for snapshots without GDB.
    `is_anothers` says that the target belongs to another user. `root` is the folder that holds a core's files under
    their own paths, None for the root of this machine.
    """

    settings: tuple[str, ...] = ()
    core: str | None = None
    executable: str | None = None
    descriptors: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    temporary: bool = False
    places: Mapping[str, str] = field(default_factory=dict)
    is_anothers: bool = False
    root: str | None = None
