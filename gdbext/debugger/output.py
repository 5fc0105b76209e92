"""Where gdbext writes inside GDB: text through GDB's pager, errors of one line. Nothing else may write."""

from __future__ import annotations

import gdb

from gdbext.render.escape import Safe, as_text


def write(text: Safe) -> None:
    """Write a text through GDB's pager.

    :raises KeyboardInterrupt: the user ended the pager, or pressed Ctrl-C.
    """
    gdb.write(text)


def write_error(line: str) -> None:
    """Write a line to GDB's standard error."""
    gdb.write(as_text([line]), gdb.STDERR)


def failure(line: str) -> gdb.GdbError:
    """The error with which a command or function ends; GDB shows its line."""
    return gdb.GdbError(as_text([line])[:-1])
