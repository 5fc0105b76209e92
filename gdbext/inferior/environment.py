"""The environment with which a program was started."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gdbext.inferior.launchers import VARIABLES

#: The largest environment that is read, and the longest value, in bytes.
MOST_BYTES, _MOST_OF_VALUE = 1 << 20, 1024
_PIECE = 1 << 12


def parse_environment(data: bytes) -> Mapping[str, str]:
    """The variables that say which rank of a job a process is, of ``NAME=VALUE`` texts with null characters between."""
    found = {}
    for text in data.split(b"\0"):
        name, is_variable, value = text.partition(b"=")
        key = name.decode("ascii", "replace")
        if is_variable and key in VARIABLES:
            found[key] = value[:_MOST_OF_VALUE].decode("utf-8", "backslashreplace")
    return found


def environment_before(read: Callable[[int, int], bytes], end: int) -> Mapping[str, str]:
    """The variables in the memory of a core: the kernel puts them before the path of the program.

    Source: Linux 6.1 fs/exec.c (do_execveat_common).

    :param read: reads memory, or as much of it as there is.
    :param end: the address of the path (``AT_EXECFN``).
    """
    data = b""
    while len(data) < MOST_BYTES:
        piece = read(end - len(data) - _PIECE, _PIECE)
        if len(piece) < _PIECE:
            break
        data = piece + data
        # before the variables are the arguments, and before these are zeros and random bytes
        if b"\0\0\0" in piece:
            break
    return parse_environment(data)
