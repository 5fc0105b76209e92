"""Write reports to private files: reports contain source lines, variables and arguments."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

from gdbext.render.escape import Safe


def write_private(path: str, text: Safe) -> None:
    """Write a file with mode 0600, replacing any existing file. A device or a pipe is written to instead.

    A symbolic link owned by another user is replaced, not followed: it could point to any file.

    :raises OSError: it cannot be written.
    """
    if _is_followed(path):
        path = os.path.realpath(path)
    try:
        is_special = not stat.S_ISREG(os.lstat(path).st_mode) and not os.path.islink(path)
    except FileNotFoundError:
        is_special = False
    if is_special:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    folder, name = os.path.split(path)
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=folder or ".")  # mode 0600
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def _is_followed(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISLNK(found.st_mode) and found.st_uid in (0, os.geteuid())
