"""The scene of a fake process, for what recognises waits in libraries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gdbext.locks.scene import Scene
from gdbext.threads.site import Sites


def scene_of(process: Any, threads: Any = None, sleepers: Iterable[int] = ()) -> Scene:
    """A scene whose target and code, and threads if there are no others, are a fake process."""
    library: Any = None
    return Scene(process, process, library, process if threads is None else threads, Sites(process.memory, process, ()),
                 dict.fromkeys(sleepers, 1))
