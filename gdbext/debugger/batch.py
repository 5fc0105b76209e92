"""GDB in batch mode: whether it is, and its end with a status."""

from __future__ import annotations

import re
from collections.abc import Sequence

import gdb

# GDB refuses shorter forms as ambiguous. Source: GDB 13.1 gdb/main.c, long_options
_BATCH = re.compile(r"--?batch(-s[a-z]*)?")
_REST = re.compile(r"--?args")


def in_batch_mode() -> bool:
    """Whether GDB was started with ``-batch``, which its Python API does not have."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return asks_for_batch_mode(file.read().decode("utf-8", "replace").split("\0")[1:])
    except OSError:
        return False


def asks_for_batch_mode(arguments: Sequence[str]) -> bool:
    """Whether the arguments of GDB contain ``-batch``."""
    for argument in arguments:
        if _REST.fullmatch(argument):  # the program's own arguments follow
            return False
        if _BATCH.fullmatch(argument):
            return True
    return False


def end_gdb(status: int) -> None:
    """End GDB, after all output has been written. It detaches from a process that it has attached to."""
    gdb.flush(gdb.STDOUT)
    gdb.flush(gdb.STDERR)
    gdb.execute("set confirm off")  # GDB would ask, and answer itself, in the output
    gdb.execute(f"quit {status}")
