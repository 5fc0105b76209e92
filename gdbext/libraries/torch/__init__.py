"""PyTorch's distributed package: operations that end when all ranks of a process group have called them."""

from __future__ import annotations

from typing import Final

from gdbext.library import Kind, Library

#: An operation of a process group that a thread waits for.
COLLECTIVE: Final = "collective"

LIBRARY: Final = Library(
    "torch",
    files=r"libtorch_(?:cpu|cuda)\b",
    kinds={COLLECTIVE: Kind(
        "none: it ends when the other ranks have called it", name="operation", behaviour="outside", of_ranks=True,
        waited_in="c10d::Work::wait, and sends and receives of gloo")},
    words={"needs-other-ranks": "it ends when the other ranks of the group take part"},
    has_ranks=True,
)
