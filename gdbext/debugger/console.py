"""What GDB's own commands print, as text."""

from __future__ import annotations

import re
from collections.abc import Callable

import gdb

from gdbext.errors import GdbextError
from gdbext.render.escape import fits_in_command, printable

# what GDB takes for more than a part of a name between double quotes, in commands that parse arguments as a shell does
_QUOTED = re.compile(r'(["\\])')
#: How GDB/MI begins what goes to the console.
_STREAM = '~"'


def output(command: str) -> str:
    """The output of a GDB command, which must be one that may run twice.

    GDB 18.1 gives, while it talks to a program (GDB/MI), part of the output as MI would send it: ``~"0x0"`` with
    backslashes in front of quotes. Commands of the console interpreter are free of that.

    :param command: one line without quotes and backslashes, which would have to be doubled.
    :return: with bytes that are not UTF-8 as in `decoded`.
    :raises gdb.error: the command fails.
    """
    text = decoded(lambda: gdb.execute(command, to_string=True)) or ""
    if text.startswith(_STREAM):
        text = decoded(lambda: gdb.execute(f'interpreter-exec console "{command}"', to_string=True)) or ""
    return text


def execute(command: str) -> None:
    """Run a GDB command and drop its output, which may not be UTF-8: a core's command line, names of files.

    :raises gdb.error: the command fails.
    """
    decoded(lambda: gdb.execute(command, to_string=True))


def decoded(get: Callable[[], str | None]) -> str | None:
    """A text from GDB, which may contain names of files, functions or threads that are not UTF-8.

    GDB gives no such text to Python, but the error that it raises has the bytes. They are decoded as Python decodes
    names from the system (PEP 383).

    :param get: calls a function of GDB's or reads an attribute.
    """
    try:
        return get()
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "surrogateescape")


def quoted(name: str) -> str:
    """A file's name for those GDB commands that parse their argument as a shell does.

    :raises GdbextError: it has a line feed, which ends a command whatever is before it, or is not UTF-8.
    """
    if not fits_in_command(name):
        raise GdbextError(f"GDB cannot be told of a file whose name has a line feed or is no UTF-8: {printable(name)}",
                          "make a link to it that has another name, and name that")
    # a space at the end would be gone if it only had a backslash in front: GDB strips commands before it parses them
    return '"' + _QUOTED.sub(r"\\\1", name) + '"'
