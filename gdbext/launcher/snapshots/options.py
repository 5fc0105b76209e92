"""What a snapshot is taken of, and how."""

from __future__ import annotations

from pathlib import Path

from gdbext.record import record


@record
class Target:
    """A process by its PID, or a core with its executable if that is known."""

    pid: int | None = None
    core: Path | None = None
    executable: Path | None = None

    @property
    def name(self) -> str:
        """The name in reports."""
        return f"process {self.pid}" if self.pid is not None else str(self.core)


@record
class Options:
    """How to take a snapshot, and how its text looks.

    `gdb` is the GDB that takes the snapshot, a file or a name on ``$PATH``; None: gdbext reads the target itself.
    `timeout` is in seconds. `sysroot` is the folder that holds the target's files under their own paths, `search` are
    folders that may hold them anywhere. With `debuginfod` GDB takes the snapshot, and asks servers for symbols; no GDB
    does with `without_gdb`. `each` shows each thread by itself, `stacks` is ``full``, ``top`` or ``none``, `width` is
    the columns of a line. With `object_names` an object that has a lock is named by the value of an attribute. Without
    `values_of_others` these values and those of variables are left out if the target belongs to another user.
    `may_stop` says whether, without GDB, threads of a process may be stopped for a moment. A process is paused for at
    most `max_pause` seconds. With `text_only` the snapshot has neither a document nor a graph.
    """

    gdb: str | None = None
    timeout: float = 60.0
    sysroot: Path | None = None
    search: tuple[Path, ...] = ()
    debuginfod: bool = False
    each: bool = False
    stacks: str = "full"
    colour: bool = False
    width: int | None = None
    object_names: bool = True
    values_of_others: bool = False
    without_gdb: bool = False
    may_stop: bool = True
    max_pause: float = 10.0
    text_only: bool = False

    @property
    def by_gdb(self) -> bool:
        """Whether GDB takes the snapshot: only if the user names one, or wants symbols from servers."""
        return not self.without_gdb and (self.gdb is not None or self.debuginfod)
