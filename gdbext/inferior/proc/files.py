"""Reads the files, links and folders of /proc. What is missing or may not be read is None or empty.

Source: Linux 6.1 Documentation/filesystems/proc.rst.
"""

from __future__ import annotations

import os

#: The largest number of bytes read from one file; a socket takes 150 bytes in its table.
MOST_BYTES = 8 << 20
#: The largest size of a file about one thread or descriptor, in bytes.
MOST_OF_ONE = 1 << 16
#: The largest number of characters of a name or path.
MOST_CHARACTERS = 512


def read_text(path: str, limit: int = MOST_BYTES) -> str | None:
    """The text of a file, up to so many bytes; None if it cannot be read."""
    try:
        # one read() of a file in /proc may return only a part
        with open(path, "rb") as file:
            return file.read(limit).decode("utf-8", "backslashreplace")
    except OSError:  # the file does not exist, or the process has ended
        return None


def read_lines(path: str, limit: int = MOST_BYTES) -> list[str]:
    """The lines of a file; a name in it may contain what else separates lines, but a newline is escaped."""
    return (read_text(path, limit) or "").split("\n")


def read_small(path: str, limit: int = 4096, folder: int | None = None) -> bytes:
    """Read a small file with one system call; a file object would double the time for a thousand threads.

    :param folder: a descriptor of the folder from which the path starts.
    :raises OSError: it cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(handle, limit)
    finally:
        os.close(handle)


def read_link(path: str) -> str | None:
    """The bounded text of a symbolic link; None if it cannot be read."""
    try:
        return bounded(os.readlink(path))
    except OSError:
        return None


def bounded(raw: str) -> str:
    """A name or path that the system gave, with a limit, and without bytes that cannot be encoded."""
    text = raw if raw.isascii() else os.fsencode(raw).decode("utf-8", "backslashreplace")
    return text[:MOST_CHARACTERS]


def numbers(folder: str) -> list[int]:
    """The numeric names in a folder, ascending: processes of /proc, threads of /proc/PID/task."""
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except OSError:
        return []
