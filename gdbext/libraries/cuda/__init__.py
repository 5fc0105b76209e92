"""The CUDA driver and AMD's HIP, in which threads wait for the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gdbext.library import Library, listed


def _host_functions(threads: Sequence[int]) -> str:
    if not threads:
        return ""
    which = f"threads {listed(threads)} are" if len(threads) > 1 else f"thread {threads[0]} is"
    return f"; {which} in a function that the GPU may have to wait for"


def _driver(function: str) -> str:
    return "HIP runtime" if function.startswith("hip") else "CUDA driver"


LIBRARY: Final = Library(
    "cuda",
    files=r"lib(?:cuda|cudadebugger|nvidia-[\w-]+|amdhip64)\.so\b",
    kinds={},
    words={
        "waits-for-gpu": lambda function, inside: f"waits for the GPU in {function}(){_host_functions(inside)}",
        "waits-in-cuda": lambda function, inside: (
            f"waits in {function}() of the {_driver(function)}{_host_functions(inside)}"),
    },
)
