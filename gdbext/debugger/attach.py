"""What `gdbext attach` runs in its GDB: it attaches or loads the core, or ends GDB with one line that says why not."""

from __future__ import annotations

import re

import gdb

from gdbext.debugger.interrupts import interrupts_blocked
from gdbext.render.escape import printable

#: Exit status for no answer; see docs/reference.md.
_NO_ANSWER = 3
# "ptrace: Operation not permitted.", "Permission denied"
_NOT_PERMITTED = re.compile(r"not permitted|denied")


def process(pid: int, why: str) -> None:
    """Attach to a process; GDB ends if it cannot.

    :param why: what to say if the kernel does not permit it.
    """
    _run(f"attach {pid}", f"cannot attach to process {pid}", why)


def core(name: str) -> None:
    """Load a core; GDB ends if it cannot.

    :param name: by which GDB opens it.
    """
    _run(f"core-file {name}", f"cannot load {name}", "")


def _run(command: str, failure: str, why: str) -> None:
    try:
        with interrupts_blocked():
            gdb.execute(command)
    except gdb.error as error:
        said = printable(str(error).strip())
        problem = why if why and _NOT_PERMITTED.search(said) else f"{failure}: {said}"
        gdb.write(f"gdbext attach: {problem}\n", gdb.STDERR)
        gdb.execute(f"quit {_NO_ANSWER}")
