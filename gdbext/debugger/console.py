"""What GDB's own commands print, as text."""

from __future__ import annotations

import re

import gdb

from gdbext.errors import GdbextError
from gdbext.render.escape import printable

# what GDB takes for more than a part of a name between double quotes, in commands that parse arguments as a shell does
_QUOTED = re.compile(r'(["\\])')
#: How GDB/MI begins what goes to the console.
_STREAM = '~"'


def output(command: str) -> str:
    """What a command of GDB prints; it must be one that may be run twice.

    GDB 18.1 gives, while it talks to a program (GDB/MI), part of the output as MI would send it: ``~"0x0"`` with
    backslashes in front of quotes. Commands of the console interpreter are free of that.

    :param command: one line without quotes and backslashes, which would have to be doubled.
    :raises gdb.error: the command fails.
    :raises GdbextError: it prints what is no UTF-8.
    """
    try:
        text = gdb.execute(command, to_string=True)
    except UnicodeDecodeError:
        raise GdbextError("GDB gives no names to its Python that are no UTF-8, and a file or function has one",
                          "`info sharedlibrary` shows the names of loaded files") from None
    if text.startswith(_STREAM):
        text = gdb.execute(f'interpreter-exec console "{command}"', to_string=True)
    return text


def quoted(name: str) -> str:
    """A file's name as GDB's commands take it that parse their argument as a shell does.

    :raises GdbextError: it has a line feed, which ends a command whatever is before it, or is no UTF-8.
    """
    if "\n" in name or not name.isascii() and any("\ud800" <= char <= "\udfff" for char in name):
        raise GdbextError(f"GDB cannot be told of a file whose name has a line feed or is no UTF-8: {printable(name)}",
                          "make a link to it that has another name")
    # a space at the end would be gone if it only had a backslash in front: GDB strips commands before it parses them
    return '"' + _QUOTED.sub(r"\\\1", name) + '"'
