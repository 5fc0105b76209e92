"""Threads in system calls on a path or a folder, which return at once unless the file system does not answer.

Source: Linux 6.1 include/linux/syscalls.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gdbext.errors import if_unreadable
from gdbext.inferior.awaited import c_int
from gdbext.inferior.cache import read_cstring
from gdbext.inferior.protocol import Target
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model.kinds import DESCRIPTOR
from gdbext.model.reasons import because

#: The longest path of a call: PATH_MAX of Linux include/uapi/linux/limits.h.
_MAX_PATH = 4096
#: The descriptor that stands for the working directory: AT_FDCWD of Linux include/uapi/linux/fcntl.h.
_WORKING_DIRECTORY = -100
#: Calls whose first argument is a path.
_BY_PATH = frozenset((
    "access", "chdir", "chmod", "chown", "getxattr", "lchown", "lgetxattr", "link", "listxattr", "lstat", "mkdir",
    "readlink", "rename", "rmdir", "setxattr", "stat", "statfs", "symlink", "truncate", "umount2", "unlink", "utime",
    "utimes"))
#: Calls whose first argument is the descriptor of a folder, and the second one a path.
_BY_FOLDER = frozenset((
    "faccessat", "faccessat2", "fchmodat", "fchownat", "futimesat", "linkat", "mkdirat", "name_to_handle_at",
    "newfstatat", "openat2", "readlinkat", "renameat", "renameat2", "statx", "unlinkat", "utimensat"))
#: Calls whose first argument is the descriptor of a file or folder.
_BY_DESCRIPTOR = frozenset((
    "fallocate", "fchmod", "fchown", "fgetxattr", "fstat", "fstatfs", "ftruncate", "getdents", "getdents64", "syncfs"))
CALLS = frozenset((*_BY_PATH, *_BY_FOLDER, *_BY_DESCRIPTOR))


@if_unreadable(None)
def file_system_wait(target: Target, name: str, arguments: Sequence[int]) -> SeenWait | None:
    """The wait of a thread in a call of `CALLS`: for the file system of its path."""
    folder = c_int(arguments[0]) if name not in _BY_PATH else None
    path = ""
    if name not in _BY_DESCRIPTOR:
        at = arguments[0] if folder is None else arguments[1]
        path = read_cstring(target.memory, at, _MAX_PATH).decode("utf-8", "backslashreplace") if at else ""
    if folder == _WORKING_DIRECTORY:
        folder = None
    mount = None
    if target.proc is not None:
        if not path and folder is not None:
            path, folder = target.proc.descriptors.link(folder) or "", None
        mount = target.proc.descriptors.mount_of(path, folder)
    if mount is None:
        return SeenWait(because("waits-for-file-system", call=name, path=path))
    wait = SeenWait(because("waits-for-file-system", call=name, path=path, kind=mount.file_system, folder=mount.folder,
                            source=mount.source))
    own = target.proc.serves(mount) if target.proc is not None else None
    if own is None:
        return wait
    return replace(wait, lock=SeenLock(DESCRIPTOR, own, "waiting for an answer", name=f"fd {own}, /dev/fuse",
                                       why=because("served-here", folder=mount.folder, fd=own)))
