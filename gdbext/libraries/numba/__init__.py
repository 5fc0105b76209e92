"""numba's work queue, one of its layers for parallel loops."""

from __future__ import annotations

from typing import Final

from gdbext.library import Library

LIBRARY: Final = Library(
    "numba",
    files=r"workqueue\.(?:cpython-|abi3)[^/]*\.so$",
    kinds={},
    words={
        "numba-waits-for-loop": "waits until a worker of numba has done its part of a loop",
        "numba-worker-idle": "idle worker of numba",
    },
    idle=("numba-worker-idle",),
)
