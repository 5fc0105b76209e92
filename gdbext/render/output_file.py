"""Write reports to private files: reports contain source lines, variables and arguments.

Other users may change the folder meanwhile, so an object is opened first, and what is opened is checked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat

from gdbext.errors import GdbextError
from gdbext.render.escape import Safe, printable

#: How many symbolic links are followed, and how long the reader of a pipe may read nothing, in seconds.
_MAX_LINKS, _PATIENCE = 40, 10.0
_NO_READER = (errno.ENXIO, errno.EPIPE, errno.ETIMEDOUT)


def write_private(path: str, text: Safe) -> None:
    """Write a file with mode 0600, replacing any existing file. A device or a pipe is written to instead.

    A symbolic link owned by another user is replaced, not followed: it could point to any file. A device or a pipe of
    another user is refused.

    :raises GdbextError: it cannot be written.
    """
    try:
        with contextlib.ExitStack() as opened:
            folder, name, special = _open(path, opened)
            if special is None:
                _replace(folder, name, text.encode())
            else:
                _send(special, text.encode())
    except (OSError, ValueError) as error:  # ValueError: a null character
        number, why = (error.errno, error.strerror) if isinstance(error, OSError) else (None, str(error))
        raise GdbextError(f"cannot write {printable(path)}: {why}", "start its reader first" if number in _NO_READER
                          else "name another file") from None


def _open(path: str, opened: contextlib.ExitStack) -> tuple[int, str, int | None]:
    """Follow a path to its end.

    :return: descriptors of the folder and, if it is a device or a pipe, of the file, which cannot be read or written;
        and the name in the folder.
    """
    folder = None
    for _ in range(_MAX_LINKS):
        parent, name = os.path.split(path)
        folder = os.open(parent or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        opened.callback(os.close, folder)
        try:
            file = os.open(name or ".", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            return folder, name, None
        opened.callback(os.close, file)
        state = os.fstat(file)
        is_trusted = state.st_uid in (0, os.geteuid())
        # a user may have made a hard link to a link of root
        if stat.S_ISLNK(state.st_mode) and is_trusted and state.st_nlink == 1:
            path = os.readlink("", dir_fd=file)
            continue
        if stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode):
            return folder, name, None
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not (stat.S_ISFIFO(state.st_mode) or stat.S_ISCHR(state.st_mode)):
            raise OSError(errno.EINVAL, "it is not a file, a pipe or a character device")
        if not is_trusted:
            problem = f"it is a pipe or device of user {state.st_uid}, who could read the report"
            raise PermissionError(errno.EPERM, problem)
        return folder, name, file
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _replace(folder: int, name: str, data: bytes) -> None:
    unfinished = f".{name[:100]}.{os.urandom(8).hex()}"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished, dir_fd=folder)
        raise


def _send(special: int, data: bytes) -> None:
    """Write to a device or a pipe, without waiting forever for its reader."""
    try:
        # by this name it is the file that was checked
        descriptor = os.open(f"/proc/self/fd/{special}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise OSError(error.errno, "no process reads this pipe") from None
    left = memoryview(data)
    with open(descriptor, "wb", buffering=0) as file:
        poll = select.poll()
        poll.register(file, select.POLLOUT)
        while left:
            if not poll.poll(_PATIENCE * 1000):
                raise TimeoutError(errno.ETIMEDOUT, f"its reader has not read for {_PATIENCE:g} s")
            left = left[file.write(left) or 0:]
