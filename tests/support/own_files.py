"""Real files to parse: those that this process has mapped."""

from __future__ import annotations

import os
from pathlib import Path

from gdbext.inferior.proc.process import Proc


def small_library() -> bytes:
    """The contents of the smallest library of this process."""
    paths = {Path(region.path) for region in Proc(os.getpid()).regions() if region.path and ".so" in region.path}
    return min((path for path in paths if path.is_file()), key=lambda path: path.stat().st_size).read_bytes()
