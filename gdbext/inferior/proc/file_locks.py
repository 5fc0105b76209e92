"""Locks on files: what a blocked system call requests, and the descriptors through which conflicting locks are held.

``flock`` locks and OFD locks belong to an open file, which several processes may share after ``fork``; POSIX locks
belong to a process. The process that a table of the kernel names is the one that took the lock; it may have ended, and
its children may still have the open file. So an open file's lock is found by the descriptors whose fdinfo shows it.

Sources: Linux 6.1 fs/locks.c (flock_lock_inode, posix_lock_inode, __show_fd_locks), include/uapi/asm-generic/fcntl.h;
flock(2), fcntl_locking(2).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from gdbext.errors import GdbextError
from gdbext.inferior.proc.descriptors import Descriptor, DescriptorTable, OpenFiles
from gdbext.inferior.proc.fdinfo import FileLock, decode_file_lock
from gdbext.inferior.proc.files import read_lines
from gdbext.inferior.proc.status import state_of
from gdbext.record import record

FLOCK, POSIX, OFD = "FLOCK", "POSIX", "OFDLCK"
#: Most descriptors whose fdinfo is read for one request.
_MOST = 1024
_FLOCK = struct.Struct("<hhxxxxqq")  # struct flock: type, whence, start, length
_KINDS = {7: POSIX, 38: OFD}  # F_SETLKW, F_OFD_SETLKW
_F_RDLCK, _F_WRLCK = 0, 1
_SEEK_SET = 0
_LOCK_SH = 1


@record
class Request:
    """A request for a lock on a descriptor's file: the bytes `first` to `last`; `last` is None at the end of the file.

    The request is not `exact` if its mode or its range is not known; it is then one for the whole file.
    """

    fd: int
    kind: str
    write: bool
    first: int = 0
    last: int | None = None
    exact: bool = True

    def conflicts(self, lock: FileLock, pid: int) -> bool:
        """Whether a lock is of a kind, mode and range that the request of process `pid` conflicts with.

        An OFD lock may be the request's own open file's. That does not conflict; see `FileLocks.find_lockers`.
        """
        if not (lock.write or self.write) or (FLOCK in (self.kind, lock.kind) and self.kind != lock.kind):
            return False
        if lock.kind not in (FLOCK, POSIX, OFD) or self.kind == lock.kind == POSIX and lock.pid == pid:
            return False
        return lock.overlaps(self.first, self.last)


def decode_request(call: str, arguments: Sequence[int], read: Callable[[int, int], bytes | None]) -> Request | None:
    """Decode the request of a thread that is blocked in ``flock`` or ``fcntl``; None if it requests no lock.

    :param read: reads the process's memory; returns None or raises if it cannot.
    """
    fd = arguments[0] & 0xFFFFFFFF
    if fd >> 31:
        return None
    if call == "flock":
        return Request(fd, FLOCK, not arguments[1] & _LOCK_SH)
    kind = _KINDS.get(arguments[1] & 0xFFFFFFFF)
    if call != "fcntl" or kind is None:
        return None
    try:
        data = read(arguments[2], _FLOCK.size)
    except GdbextError:
        data = None
    mode, whence, start, length = _FLOCK.unpack(data) if data is not None else (None, None, 0, 0)
    if mode not in (_F_RDLCK, _F_WRLCK) or whence != _SEEK_SET:  # the others depend on what may have changed since
        return Request(fd, kind, mode != _F_RDLCK, exact=False)
    first, end = min(start, start + length), max(start, start + length)
    return Request(fd, kind, mode == _F_WRLCK, first, end - 1 if length else None)


@record
class Lockers:
    """The conflicting locks of a request.

    `held` has, for each of these locks, the descriptors through which it is held. `unseen` are processes that the
    kernel names as those that took a lock, but of which no descriptor shows it. With `all_read` each process that may
    be read was searched for the open files, with `all_seen` each process.
    """

    held: Mapping[FileLock, Sequence[Descriptor]]
    unseen: Sequence[int]
    all_read: bool
    all_seen: bool

    def descriptors(self) -> list[Descriptor]:
        """The descriptors of all locks, in order."""
        return list(dict.fromkeys(each for found in self.held.values() for each in found))

    def releasing(self, is_whole: Callable[[Sequence[Descriptor]], bool] | None = None) -> list[frozenset[int]]:
        """For each lock, the processes that can release it; without the locks for which some may not be known.

        :param is_whole: whether no process that may not be read has the open file of some descriptors.
        """
        return [frozenset(each.pid for each in found) for found in self.held.values()
                if self.all_seen or is_whole is not None and self.all_read and is_whole(found)]


class FileLocks:
    """The table of locks on files, which is read once, and the descriptors through which they are held.

    :param descriptors: those of the process that requests locks.
    :param root: the path of /proc.
    :param open_files: compares the open files of descriptors.
    """

    def __init__(self, descriptors: DescriptorTable, root: str = "/proc", open_files: OpenFiles | None = None) -> None:
        self._descriptors = descriptors
        self._pid = descriptors.pid
        self._root = root
        self._open_files = open_files or OpenFiles()

    def held_on(self, file: str) -> Sequence[FileLock]:
        """The locks held on a file, given its device and inode as returned by `DescriptorTable.file`."""
        return self._locks.get(file, ())

    def of_open_files(self, first: int, last: int) -> list[tuple[str, FileLock]]:
        """The locks to write, of any process, on some bytes of the files that this process has open, with the paths."""
        return [(path, lock) for locks in self._locks.values() for lock in locks
                if lock.write and lock.kind != FLOCK and lock.overlaps(first, last)
                for path in list(self._descriptors.opened(lock.file))[:1]]

    @cached_property
    def _locks(self) -> Mapping[str, Sequence[FileLock]]:
        locks: dict[str, list[FileLock]] = {}
        for lock in filter(None, map(decode_file_lock, read_lines(f"{self._root}/locks"))):
            locks.setdefault(lock.file, []).append(lock)
        return locks

    def find_lockers(self, request: Request) -> Lockers | None:
        """Find the locks that a request of the process conflicts with; None if its file is not known."""
        table = self._descriptors
        own, file = table.info(Descriptor(self._pid, request.fd)), table.file(request.fd)
        link = table.link(request.fd)
        if own is None or file is None or link is None:
            return None
        held: dict[FileLock, list[Descriptor]] = {}
        descriptors: list[Descriptor] = []
        listed = [lock for lock in self.held_on(file) if request.conflicts(lock, self._pid)]
        left = _MOST
        # the same file may be open by several paths
        links = list(dict.fromkeys([link, *(table.opened(file) if listed else ())]))
        for each in [each for path in links for each in table.having(path)]:
            if left == 0:
                break
            left -= 1
            info = table.info(each)
            descriptors.append(each)
            for lock in dict.fromkeys(info.locks if info is not None else ()):
                if (lock.file == file and request.conflicts(lock, self._pid)
                        and (lock.kind != POSIX or lock.pid == each.pid)):
                    held.setdefault(lock, []).append(each)
        for lock, found in held.items():
            found += self._sharing(lock, found, descriptors)
        if request.kind != POSIX:
            held = {lock: others for lock, found in held.items()
                    if (others := self._of_others(request, found, lock in own.locks, listed.count(lock)))}
        listed = [lock for lock in listed if lock not in held and lock not in own.locks]
        unseen = list(dict.fromkeys(lock.pid for lock in listed))
        all_read = table.in_time and left > 0
        # mount option hidepid of /proc hides processes of other users
        return Lockers(held, unseen, all_read, all_read and table.complete and state_of(1, self._root) is not None)

    def _sharing(self, lock: FileLock, found: Sequence[Descriptor],
                 descriptors: Sequence[Descriptor]) -> list[Descriptor]:
        """The descriptors of other processes that refer, or may refer, to the open file through which a lock is held.

        Their fdinfo did not show the lock: a process that runs may have released it since that of the first was read.
        """
        known = {each.pid for each in found}
        return [each for each in descriptors if lock.kind != POSIX and each.pid not in known
                and any(self._open_files.is_same(one, each) is not False for one in found)]

    def _of_others(self, request: Request, found: list[Descriptor], is_own: bool, count: int) -> list[Descriptor]:
        """The descriptors of other open files than the request's, which has the same lock itself if `is_own`."""
        if not is_own:
            return found
        # each line of the table is one open file: with as many descriptors no two of them share one
        return [each for each in found if each != Descriptor(self._pid, request.fd)] if len(found) == count else []
