"""The source files of the target's frames: where they are, who may read them, and whether they may be too new."""

from __future__ import annotations

import os

from gdbext.commands.answer import source_of_core, source_of_process
from gdbext.debugger.console import TARGET_FILES, sysroot
from gdbext.debugger.settings import Settings
from gdbext.debugger.target import GdbTarget
from gdbext.render.source import SourceFiles
from gdbext.render.source_access import EVERYBODY, SourceAccess


def source_files(target: GdbTarget, chosen: Settings) -> SourceFiles:
    """Prepare reading the source of the target's frames."""
    if target.kind == "core":
        root = sysroot()
        return source_of_core(target.core_file(), lambda: _core_written(target), chosen.source_path,
                              chosen.source_anywhere, root if root != TARGET_FILES else None)
    if target.proc is None:
        return SourceFiles(chosen.source_path, chosen.source_anywhere,
                           SourceAccess("", EVERYBODY if os.geteuid() == 0 else None))
    return source_of_process(target.pid, chosen.source_path, chosen.source_anywhere)


def _core_written(target: GdbTarget) -> float | None:
    """Return the modification time of the core file in seconds since 1970, or None."""
    path = target.core_path()
    try:
        return os.stat(path).st_mtime if path is not None else None
    except OSError:
        return None
