"""Commands of the GDB that `gdbext attach` starts: attach to a process or load a core, or end GDB with an error."""

from __future__ import annotations

import re

import gdb

from gdbext.debugger.batch import end_gdb
from gdbext.debugger.console import interrupts_blocked
from gdbext.render.escape import printable

#: Exit status for no answer; see docs/reference.md.
_NO_ANSWER = 3
# "ptrace: Operation not permitted.", "Permission denied"
_NOT_PERMITTED = re.compile(r"not permitted|denied")


def process(pid: int, why: str) -> None:
    """Attach to a process; end GDB if that fails.

    :param why: the message if the kernel does not permit it.
    """
    _run(f"attach {pid}", f"cannot attach to process {pid}", why)


def core(name: str) -> None:
    """Load a core; end GDB if that fails."""
    _run(f"core-file {name}", f"cannot load {name}", "")


def _run(command: str, failure: str, why: str) -> None:
    try:
        with interrupts_blocked():
            gdb.execute(command)
    except gdb.error as error:
        message = printable(str(error).strip())
        problem = why if why and _NOT_PERMITTED.search(message) else f"{failure}: {message}"
        gdb.write(f"gdbext attach: {problem}\n", gdb.STDERR)
        end_gdb(_NO_ANSWER)
