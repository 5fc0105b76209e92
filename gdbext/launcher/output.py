"""Where the launcher writes: text to the standard streams, one line for the user, files. Nothing else may write."""

from __future__ import annotations

import os
import sys

from gdbext.render.escape import Safe, as_text
from gdbext.render.output_file import write_private


def write(text: Safe) -> None:
    """Write a text to standard output."""
    sys.stdout.write(text)


def write_line(line: str) -> None:
    """Write a line to standard output."""
    write(as_text([line]))


def write_to_stderr(text: Safe) -> None:
    """Write a text to standard error."""
    sys.stderr.write(text)
    sys.stderr.flush()


def say(line: str) -> None:
    """Write a line that is not part of the report to standard error, if that is possible."""
    sys.stdout.flush()
    try:
        write_to_stderr(as_text([line]))
    except (OSError, ValueError):  # there is no reader
        pass


def write_file(path: str, text: Safe) -> None:
    """Write a report to a file that only its owner may read; ``-`` is standard output.

    :raises GdbextError: it cannot be written.
    """
    if path == "-":
        write(text)
        return
    write_private(os.path.expanduser(path), text)
