"""Libraries with locks of their own: a folder for each, with all that gdbext knows about it, and its line here."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from gdbext.library import Library

#: The folders, in the order in which they are asked what a thread waits for.
_FOLDERS: Final = (
    "boost",
    "openmp",
    "qt",
    "rust",
    "absl",
    "tbb",
    "tcmalloc",
    "java",
    "numba",
    "cuda",
    "sqlite",
    "torch",
    "mpi",
    "zmq",
)

LIBRARIES: Final[tuple[Library, ...]] = tuple([
    import_module(f"gdbext.libraries.{folder}").LIBRARY for folder in _FOLDERS])
