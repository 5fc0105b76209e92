"""Read files that the target names, with no more rights than the target's own user.

The target chooses the name, and any user may own a link on the path. So a debugger with more rights than the target's
user reads as that user, in a child process that has dropped its rights. A file below another root directory is opened
with openat2(2), which follows links only inside that root.

Sources: Linux 6.1 include/uapi/linux/openat2.h, fs/open.c; man 7 credentials.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import stat
import struct
import time
from collections.abc import Collection
from typing import NamedTuple

from gdbext.record import record

#: openat2(2), the same number on every architecture since Linux 5.6.
_OPENAT2, _RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 437, 0x02, 0x10
#: struct open_how: flags, mode, resolve.
_OPEN_HOW = struct.Struct("<QQQ")
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: The maximum number of symbolic links on a path, as in Linux (MAXSYMLINKS).
_MAX_LINKS = 40
#: The timeout for reading one file as another user, in seconds: that user may have mounted a slow file system.
_PATIENCE = 5.0
#: The child sends this before the data: st_dev, st_ino, st_mtime.
_HEADER = struct.Struct("<QQd")
#: The exit status of a child that could not drop its rights.
_NOT_PERMITTED = 2


@record
class User:
    """A user of this machine, with the groups that grant rights."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


#: A user without special rights: ``nobody``.
EVERYBODY = User(65534, 65534)


class Contents(NamedTuple):
    """The beginning of a regular file.

    `identity` is device and inode, `changed` is in seconds since 1970. `data` is None if the caller has it already.
    """

    identity: tuple[int, int]
    changed: float
    data: bytes | None


class SourceAccess:
    """Reads regular files.

    :param root: the root directory of the target's file system; empty if it is the debugger's own.
    :param user: the user whose rights apply to paths that the target names; None: the debugger's user.
    """

    def __init__(self, root: str = "", user: User | None = None) -> None:
        self._root = root
        self._user = user
        self._is_slow = False

    def named(self, path: str, limit: int, known: Collection[tuple[int, int]] = ()) -> Contents | None:
        """Read the first `limit` bytes of a file; None if it must not or cannot be read.

        :param path: an absolute path in the target's file system.
        :param known: identities of files that the caller has already.
        """
        try:
            if self._user is None:
                return self._read(path, limit, known)
            if os.geteuid() != 0:
                return self._read(path, limit, known, public=True)
            return self._as_user(self._user, path, limit, known)
        except OSError:
            return None

    def below(self, folder: str, name: str, limit: int, known: Collection[tuple[int, int]] = ()) -> Contents | None:
        """Read a file in a folder that the debugger's user has configured, as `named` does.

        Links may lead out of the folder only if the debugger has no more rights than the target's user.
        """
        return _read_regular(f"{folder}/{name}", limit, known, below=folder if self._user is not None else None)

    def own_path(self, path: str) -> str | None:
        """Translate an absolute path in the target's file system to one in the debugger's own; None if that fails."""
        try:
            return path if self._is_here() else _inside(self._root, path)
        except OSError:
            return None

    def _is_here(self) -> bool:
        return not self._root or os.path.samestat(os.stat(f"{self._root}/"), os.stat("/"))

    def _read(self, path: str, limit: int, known: Collection[tuple[int, int]], public: bool = False) -> Contents | None:
        if not self._root or public:
            # below another root directory, public access cannot be checked
            return _read_regular(path, limit, known, public=public) if self._is_here() else None
        root = os.open(f"{self._root}/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return self._read_inside(root, path, limit, known)
        finally:
            os.close(root)

    def _read_inside(self, root: int, path: str, limit: int, known: Collection[tuple[int, int]]) -> Contents | None:
        try:
            if not _is_regular(_open_inside(root, path, os.O_PATH | os.O_CLOEXEC)):
                return None
            return _contents(_open_inside(root, path, _FLAGS), limit, known)
        except NotImplementedError:
            place = _inside(self._root, path)
            return _read_regular(place, limit, known) if place is not None else None
        except (OSError, ValueError):
            return None

    # -- as another user -------------------------------------------------------------------------------------

    def _as_user(self, user: User, path: str, limit: int, known: Collection[tuple[int, int]]) -> Contents | None:
        if self._is_slow:
            return None
        root = os.open(f"{self._root}/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        receives, sends = os.pipe()
        child = os.fork()
        if child == 0:
            _child(self, user, root, path, limit, known, sends)
        os.close(sends)
        os.close(root)
        try:
            data = self._received(receives, _HEADER.size + limit)
        finally:
            os.close(receives)
            status = _end(child)
        if status == _NOT_PERMITTED:  # root without full capabilities, as in some containers
            return self._read(path, limit, known, public=True)
        if data is None or len(data) < _HEADER.size:
            return None
        device, inode, changed = _HEADER.unpack_from(data)
        identity = device, inode
        return Contents(identity, changed, None if identity in known else data[_HEADER.size:])

    def _received(self, descriptor: int, limit: int) -> bytes | None:
        parts: list[bytes] = []
        end = time.monotonic() + _PATIENCE
        while limit > 0:
            left = end - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                self._is_slow = True
                return None
            part = os.read(descriptor, min(limit, 1 << 16))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)

    def read_in_child(self, root: int, path: str, limit: int, known: Collection[tuple[int, int]]) -> Contents | None:
        """Read a file, in a child process that runs with the user's rights."""
        return self._read_inside(root, path, limit, known) if self._root else _read_regular(path, limit, known)


def _child(access: SourceAccess, user: User, root: int, path: str, limit: int, known: Collection[tuple[int, int]],
           sends: int) -> None:
    status = 1
    try:
        try:
            os.setgroups(user.groups)
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
        except OSError:
            status = _NOT_PERMITTED
            return
        found = access.read_in_child(root, path, limit, known)
        if found is not None:
            left = memoryview(_HEADER.pack(*found.identity, found.changed) + (found.data or b""))
            while left:
                left = left[os.write(sends, left):]
        status = 0
    finally:
        os._exit(status)  # skip the debugger's own clean-up


def _end(child: int) -> int | None:
    """End a child, and return its exit status; None if it was killed."""
    try:
        ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            # a child that has sent everything is about to exit
            end = time.monotonic() + 1
            while not ended and time.monotonic() < end:
                time.sleep(0.001)
                ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                os.kill(child, signal.SIGKILL)
                return None
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    except OSError:  # GDB has already reaped it
        return None


def _open_inside(root: int, path: str, flags: int) -> int:
    """Open a file below another root directory.

    :raises NotImplementedError: the kernel is older than Linux 5.6, or a filter of system calls forbids it.
    """
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(path)
    how = ctypes.create_string_buffer(_OPEN_HOW.pack(flags, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS),
                                      _OPEN_HOW.size)
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(ctypes.c_long(_OPENAT2), ctypes.c_long(root), ctypes.c_char_p(name), how,
                              ctypes.c_size_t(_OPEN_HOW.size))
    if found >= 0:
        return found
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM):
        raise NotImplementedError
    raise OSError(number, os.strerror(number))


def _inside(root: str, path: str) -> str | None:
    """Translate an absolute path below another root to one below the debugger's root; None if its links form a loop.

    The kernel would resolve an absolute link from the debugger's own root directory.
    """
    done: list[str] = []
    todo = path.split("/")[::-1]
    links = 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            del done[-1:]
            continue
        try:
            link = os.readlink("/".join((root, *done, part)))
        except (OSError, ValueError):  # not a link, or missing
            done.append(part)
            continue
        links += 1
        if links > _MAX_LINKS:
            return None
        if link.startswith("/"):
            done.clear()
        todo += link.split("/")[::-1]
    return "/".join((root, *done))


def _read_regular(path: str, limit: int, known: Collection[tuple[int, int]], below: str | None = None,
                  public: bool = False) -> Contents | None:
    """Read the beginning of a regular file; None for anything else.

    Opening a device can have side effects, so the file's type is checked first. It is checked again after opening,
    since another file may have replaced it.

    :param below: the folder that must contain the file after links are resolved.
    :param public: whether every user must be allowed to read it.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        handle = os.open(path, _FLAGS)
    except (OSError, ValueError):
        return None
    return _contents(handle, limit, known, below, public)


def _is_regular(handle: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(handle).st_mode)
    finally:
        os.close(handle)


def _contents(handle: int, limit: int, known: Collection[tuple[int, int]], below: str | None = None,
              public: bool = False) -> Contents | None:
    with os.fdopen(handle, "rb") as file:
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return None
            if below is not None and not _place(handle).startswith(os.path.realpath(below).rstrip("/") + "/"):
                return None
            if public and not _is_public(_place(handle), found):
                return None
            identity = found.st_dev, found.st_ino
            return Contents(identity, found.st_mtime, None if identity in known else file.read(limit))
        except OSError:
            return None


def _place(handle: int) -> str:
    """The path of an open file, with links resolved."""
    return os.readlink(f"/proc/self/fd/{handle}")


def _is_public(path: str, found: os.stat_result) -> bool:
    """Whether every user may read a file and search its folders."""
    folders = path.split("/")[:-1]
    return bool(found.st_mode & stat.S_IROTH) and all(
        os.stat("/".join(folders[:count]) or "/").st_mode & stat.S_IXOTH for count in range(1, len(folders) + 1))
