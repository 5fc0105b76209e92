"""What the programs need that the launcher starts: the package's folder, and an environment."""

from __future__ import annotations

import os
from pathlib import Path

#: The folder that contains the package.
HOME = str(Path(__file__).resolve().parents[3])


def environment(debuginfod: bool = False, language: bool = True) -> dict[str, str]:
    """This environment, without variables that change a GDB, its Python, its language or its servers.

    :param debuginfod: whether GDB may ask servers for symbols.
    :param language: whether its messages must be English.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if not debuginfod:
        kept.pop("DEBUGINFOD_URLS", None)  # asked by GDB 10 and 11, which have no setting for it
    # names of files must be UTF-8, too
    return {**kept, "LC_ALL": "C.UTF-8"} if language else kept


def source_line() -> str:
    """The GDB command that loads this copy of gdbext."""
    return f"source {HOME}/gdbext/gdbext"
