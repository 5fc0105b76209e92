"""Running GDB commands, and text from GDB."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator

import gdb

from gdbext.errors import GdbextError
from gdbext.render.escape import fits_in_command, printable

#: The prefix with which GDB marks a path in the target's file system.
TARGET_FILES = "target:"
# special characters between double quotes, in commands that parse arguments like a shell
_QUOTED = re.compile(r'(["\\])')
#: The prefix of console output in GDB/MI.
_STREAM = '~"'


def output(command: str) -> str:
    """Run a GDB command and return its output. The command must be one that may run twice.

    While GDB 18.1 talks to a program (GDB/MI), it returns part of the output in MI's format: ``~"0x0"`` with escaped
    quotes. Commands of the console interpreter are free of that.

    :param command: one line without quotes and backslashes, which would have to be doubled.
    :return: the output; bytes that are not UTF-8 are decoded as in `decoded`.
    :raises gdb.error: the command fails.
    """
    text = decoded(lambda: gdb.execute(command, to_string=True)) or ""
    if text.startswith(_STREAM):
        text = decoded(lambda: gdb.execute(f'interpreter-exec console "{command}"', to_string=True)) or ""
    return text


def execute(command: str) -> None:
    """Run a GDB command and drop its output, which may not be UTF-8 (a core's command line, file names).

    :raises gdb.error: the command fails.
    """
    decoded(lambda: gdb.execute(command, to_string=True))


def decoded(get: Callable[[], str | None]) -> str | None:
    """Get a text from GDB that may contain names of files, functions or threads that are not UTF-8.

    GDB does not return such a text, but the error that it raises has the bytes. They are decoded as Python decodes
    names from the system (PEP 383).

    :param get: calls a function of GDB or reads an attribute.
    """
    try:
        return get()
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "surrogateescape")


def quoted(name: str) -> str:
    """Quote a file's name for GDB commands that parse their arguments like a shell.

    :raises GdbextError: the name has a line feed, which ends any command, or is not UTF-8.
    """
    if not fits_in_command(name):
        raise GdbextError("GDB commands cannot contain a file name that has a line feed or is not UTF-8: "
                          + printable(name), "make a link to the file that has another name, and name the link")
    # a backslash does not protect a space at the end: GDB strips commands before it parses them
    return '"' + _QUOTED.sub(r"\\\1", name) + '"'


def sysroot() -> str:
    """Return the setting `sysroot`; `TARGET_FILES` is the target's own file system."""
    return str(gdb.parameter("sysroot") or "")


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Drop all output of GDB, also the place of a stop, which `execute` does not catch."""
    kept = [(number, os.dup(number)) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    _flush()
    try:
        for number, _ in kept:
            os.dup2(nowhere, number)
        yield
    finally:
        _flush()
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)


def _flush() -> None:
    for stream in (gdb.STDOUT, gdb.STDERR):
        gdb.flush(stream)


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT while GDB attaches to a process; GDB gets it afterwards.

    A GDB that receives SIGINT while it waits for a process to stop passes it on (GDB 13.1 gdb/linux-nat.c,
    pass_ctrlc), and most processes die of it when GDB detaches.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
