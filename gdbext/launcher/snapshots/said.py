"""The last words of a process that has ended without an answer."""

from __future__ import annotations

import resource

from gdbext.render.escape import printable


def last_line(said: str) -> str:
    """The last line with something to read, without control characters; empty if there is none."""
    lines = ("".join(char for char in line if char.isprintable()).strip() for line in said.split("\n"))
    return printable(next((line for line in reversed(list(lines)) if line), ""), 300)


def memory_hint() -> str:
    """What to do if a limit on memory may be the reason; empty if there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    hint = ""
    if soft != resource.RLIM_INFINITY:
        hint = f"memory is limited to {soft >> 20:,} MiB here, which may be too little: ulimit -v unlimited"
    return hint
