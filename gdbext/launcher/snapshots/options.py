"""What a snapshot is taken of, and how."""

from __future__ import annotations

from pathlib import Path

from gdbext.commands.report_options import ReportOptions
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
class Options(ReportOptions):
    """How to take a snapshot, and how its text looks; this is the only place of the defaults.

    `gdb` is the GDB that takes the snapshot, a file or a name on ``$PATH``; None: gdbext reads the target itself.
    `timeout` is in seconds. `sysroot` is the folder that holds the target's files under their own paths, `search` are
    folders that may hold them anywhere. With `debuginfod` GDB takes the snapshot, and asks servers for symbols; no GDB
    does with `without_gdb`. Without `values_of_others` values of variables and names of objects are left out if the
    target belongs to another user.
    """

    gdb: str | None = None
    timeout: float = 60.0
    sysroot: Path | None = None
    search: tuple[Path, ...] = ()
    debuginfod: bool = False
    values_of_others: bool = False
    without_gdb: bool = False

    @property
    def by_gdb(self) -> bool:
        """Whether GDB takes the snapshot: only if the user names one, or wants symbols from servers."""
        return not self.without_gdb and (self.gdb is not None or self.debuginfod)


#: The options where the user chooses nothing.
DEFAULTS = Options()
FIELDS = (*ReportOptions.__annotations__, *Options.__annotations__)
