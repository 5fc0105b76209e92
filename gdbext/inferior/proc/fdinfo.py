"""Decodes /proc/PID/fdinfo/FD, and the lines of locks on files in it and in /proc/locks. Pure.

Source: Linux Documentation/filesystems/proc.rst, 3.8 (fdinfo).
"""

from __future__ import annotations

import os
import re

from gdbext.record import record

# "flags:\t0100002\nmnt_id:\t15\nino:\t1041\n", then lines that depend on the kind of file
_FDINFO = re.compile(r"^flags:\t([0-7]+)\nmnt_id:\t(\d+)$(?:\nino:\t(\d+)$)?", re.MULTILINE)
_WATCHED = re.compile(r"^tfd: +(\d+) .*?(?: ino:([0-9a-f]+)(?: .*)?)?$", re.MULTILINE)
_STORED = re.compile(r"^tfd: +(\d+) .*?data: +([0-9a-f]+)", re.MULTILINE)
_PROCESS = re.compile(r"^Pid:\t(\d+)$", re.MULTILINE)
_TERMINAL = re.compile(r"^tty-index:\t(\d{1,9})$", re.MULTILINE)
_LOCK = re.compile(r"^lock:\t(.*)$", re.MULTILINE)


@record
class FileLock:
    """A lock on a file: `kind` is FLOCK, POSIX or OFDLCK; `last` is None if the range extends to the end of the file.

    `pid` is the process that took it, or not positive if none is recorded; `file` is device and inode, as in
    `DescriptorTable.file`.
    """

    kind: str
    write: bool
    pid: int
    file: str
    first: int
    last: int | None

    def overlaps(self, first: int, last: int | None) -> bool:
        """Whether the lock covers any byte of a range."""
        return (last is None or self.first <= last) and (self.last is None or first <= self.last)


@record
class DescriptorInfo:
    """The contents of a descriptor's fdinfo: access, mount id and inode of the file, and more.

    `watched` has the (descriptor, inode) pairs that an epoll descriptor watches, and `stored` each of these descriptors
    with what the program has stored for it. `process` is the process of a pidfd, `locks` were taken through the
    descriptor. `terminal` is the number of the pseudoterminal of a master.
    """

    reads: bool
    writes: bool
    mount: int
    inode: int | None
    watched: tuple[tuple[int, int | None], ...] = ()
    process: int | None = None
    locks: tuple[FileLock, ...] = ()
    nonblocking: bool = False
    closed_by_exec: bool = False
    terminal: int | None = None
    stored: tuple[tuple[int, int], ...] = ()


def decode_fdinfo(text: str) -> DescriptorInfo | None:
    """Decode a descriptor's fdinfo; None if it makes no sense."""
    match = _FDINFO.search(text)
    if match is None:
        return None
    flags, inode, process, terminal = int(match[1], 8), match[3], _PROCESS.search(text), _TERMINAL.search(text)
    access = flags & os.O_ACCMODE
    return DescriptorInfo(access != os.O_WRONLY, access != os.O_RDONLY, int(match[2]), int(inode) if inode else None,
                          tuple([(int(fd), int(its, 16) if its else None) for fd, its in _WATCHED.findall(text)]),
                          int(process[1]) if process else None,
                          tuple(filter(None, map(decode_file_lock, _LOCK.findall(text)))),
                          bool(flags & os.O_NONBLOCK), bool(flags & os.O_CLOEXEC),
                          int(terminal[1]) if terminal else None,
                          tuple([(int(fd), int(data, 16)) for fd, data in _STORED.findall(text)]))


def decode_file_lock(line: str) -> FileLock | None:
    """Decode a line such as ``1: POSIX  ADVISORY  WRITE 2179 fe:00:16182751 0 EOF``.

    :return: None for a lock that a process waits for: its line has an arrow after the number.
    """
    words = line.split()
    if len(words) != 8:
        return None
    try:
        return FileLock(words[1], words[3] == "WRITE", int(words[4]), words[5], int(words[6]),
                        None if words[7] == "EOF" else int(words[7]))
    except ValueError:
        return None
