"""What the kernel reports about a live process beside its memory: descriptors and their owners, file locks, children.

It comes from the debugger's /proc (Linux Documentation/filesystems/proc.rst), and from netlink, which alone knows which
local sockets are connected. Files that descriptors lead to are not touched, not even with ``stat``: a file system that
hangs would block the debugger. Names and paths are bounded in length; whoever shows them escapes them.

Everything is read when it is first asked for, and once: the process must stay stopped while a `Proc` lives.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from gdbext.inferior.address_space import Region
from gdbext.record import record
from gdbext.remembered import remembered

#: How long other processes are searched, in seconds, and how many of them.
SCAN_SECONDS = 0.2
_MOST_PROCESSES = 20_000
#: After how many descriptors of a process the clock is read.
_CLOCK_PERIOD = 256
#: Most bytes of one file of /proc; a table of sockets has 150 bytes for each.
_MOST_BYTES = 8 << 20
_MOST_OF_ONE_DESCRIPTOR = 1 << 16
#: Most characters of a name or path.
_MOST_CHARACTERS = 512

#: The clocks by which a time may be set that is told as what is left of it.
_CLOCKS = (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)
#: File systems whose files are devices, or are made by the kernel when they are read.
_NO_FILES = frozenset(("cgroup", "cgroup2", "debugfs", "devpts", "devtmpfs", "proc", "sysfs", "tracefs"))

# a line of /proc/PID/maps: "7f36fd91e000-7f36fd922000 r--p 00000000 fe:01 1041    /usr/lib/libm.so.6"; the last letter
# is "s" where memory is shared
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ([r-][w-][x-])([ps]) ([0-9a-f]+) \S+ \d+ *(.*)$")

_NETLINK_SOCK_DIAG = 4
_UNIX_DIAG_PEER = 2
_UNIX_DIAG_ICONS = 3
_NLMSG = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_UNIX_REQUEST = struct.Struct("=BBHIIIII")  # struct unix_diag_req: family, -, -, states, inode, what to show, cookie
_UNIX_MESSAGE = struct.Struct("=BBBBIII")  # struct unix_diag_msg: family, type, state, -, inode, cookie
_ATTRIBUTE = struct.Struct("=HH")  # struct rtattr: length, type

_TCP_LISTEN = 0x0A
#: States of a connection without an inode that waits for accept(): established, the handshake not finished (a full
#: queue, TCP_DEFER_ACCEPT), its client has shut down its side. One that was closed is in none of them.
_TCP_QUEUED = (0x01, 0x03, 0x08)
_UNIX_LISTENS = 0x10000
#: How the table of IPv6 sockets writes the first 12 bytes of an IPv4 address.
_MAPPED = "0000000000000000FFFF0000"

# fdinfo: "flags:\t0100002\nmnt_id:\t15\nino:\t1041\n", then what there is to tell of its kind of file
_FDINFO = re.compile(r"^flags:\t([0-7]+)\nmnt_id:\t(\d+)$(?:\nino:\t(\d+)$)?", re.MULTILINE)
_WATCHED = re.compile(r"^tfd: +(\d+) .*?(?: ino:([0-9a-f]+)(?: .*)?)?$", re.MULTILINE)
_PROCESS = re.compile(r"^Pid:\t(\d+)$", re.MULTILINE)
_LOCK = re.compile(r"^lock:\t(.*)$", re.MULTILINE)


class Descriptor(NamedTuple):
    """An open file descriptor of some process, by the debugger's number of the process."""

    pid: int
    fd: int


@record
class FileLock:
    """A lock on a file: `kind` is FLOCK, POSIX or OFDLCK, the last byte is None for "to its end".

    `pid` is the process that took it, -1 where none is recorded; `file` is device and inode, as in `Proc.file`.
    """

    kind: str
    write: bool
    pid: int
    file: str
    first: int
    last: int | None

    def overlaps(self, first: int, last: int | None) -> bool:
        """Whether it has a byte of a range."""
        return (last is None or self.first <= last) and (self.last is None or first <= self.last)


@record
class DescriptorInfo:
    """What fdinfo reports: whether it can be read and written, which file it is (mount id and inode), and more.

    `watched` are (descriptor, inode) of what an epoll descriptor watches, `process` is the process of a pidfd, `locks`
    were taken through the descriptor.
    """

    reads: bool
    writes: bool
    mount: int
    inode: int | None
    watched: tuple[tuple[int, int | None], ...] = ()
    process: int | None = None
    locks: tuple[FileLock, ...] = ()
    nonblocking: bool = False


@record
class Socket:
    """A socket of the process's network namespace; addresses of local sockets are paths, None without a name.

    `queued` is true for the listener's end of a connection that no process has accepted.
    """

    protocol: str
    local: str | None
    remote: str | None
    listening: bool
    queued: bool = False


class UnixSockets(NamedTuple):
    """Local sockets, by inode: the other end of each connected one, and for whom each not accepted one is queued.

    The other end is 0 where no process has it open. `queued` has the inode of the listening socket by that of the
    socket that has connected to it.
    """

    peers: Mapping[int, int]
    queued: Mapping[int, int]


def unix_sockets(seconds: float = SCAN_SECONDS) -> UnixSockets:
    """The connected local sockets of this network namespace.

    Empty where the kernel does not report them. Source: Linux include/uapi/linux/unix_diag.h, sock_diag(7).
    """
    show = 1 << _UNIX_DIAG_PEER | 1 << _UNIX_DIAG_ICONS
    request = _UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, show, 0xFFFFFFFF, 0xFFFFFFFF)
    sock_diag_by_family, dump = 20, 0x301
    peers: dict[int, int] = {}
    queued: dict[int, int] = {}
    end = time.monotonic() + seconds
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as link:
            link.settimeout(seconds)
            link.send(_NLMSG.pack(_NLMSG.size + len(request), sock_diag_by_family, dump, 1, 0) + request)
            while time.monotonic() < end:
                data = link.recv(1 << 16)
                messages = list(_iter_records(data, _NLMSG))
                for body in [body for kind, body in messages if kind == sock_diag_by_family]:
                    inode, peer, icons = _unix_message(body)
                    peers.update({inode: peer} if peer is not None else {})
                    queued.update(dict.fromkeys(icons, inode))
                if not messages or messages[-1][0] != sock_diag_by_family:  # NLMSG_DONE, or NLMSG_ERROR
                    break
    except OSError:
        pass
    return UnixSockets(peers, queued)


def _iter_records(data: bytes, header: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """(type, contents) of netlink's messages, or of a message's attributes; both headers begin with length and type."""
    at = 0
    while at + header.size <= len(data):
        length, kind = header.unpack_from(data, at)[:2]
        if length < header.size:
            return
        yield kind, data[at + header.size:at + length]
        at += (length + 3) & ~3


def _unix_message(body: bytes) -> tuple[int, int | None, tuple[int, ...]]:
    """A socket's inode, that of its other end if it is connected, and those of the sockets in its queue."""
    peer, icons = None, ()
    if len(body) < _UNIX_MESSAGE.size:
        return 0, peer, icons
    for kind, data in _iter_records(body[_UNIX_MESSAGE.size:], _ATTRIBUTE):
        if kind == _UNIX_DIAG_PEER and len(data) == 4:
            peer = int.from_bytes(data, "little")
        elif kind == _UNIX_DIAG_ICONS:
            icons = struct.unpack_from(f"={len(data) // 4}I", data)
    return _UNIX_MESSAGE.unpack_from(body)[4], peer, icons


class Proc:
    """A live process of this machine, as /proc shows it.

    :param pid: the debugger's number of the process.
    :param root: where /proc is.
    :param seconds: how long other processes may be looked at.
    :param unix: reads the connected local sockets.
    """

    def __init__(self, pid: int, root: str = "/proc", seconds: float = SCAN_SECONDS,
                 unix: Callable[[], UnixSockets] = unix_sockets) -> None:
        self.pid = pid
        #: Whether each process was seen that may have one of the descriptors, as far as was asked.
        self.complete = True
        self._root = root
        self._seconds = seconds
        self._read_unix = unix
        self._inodes: dict[tuple[str, str | None, str | None], list[int]] = {}
        # the listener's ends of connections that are not accepted: protocol, local and remote address
        self._queued: set[tuple[str, str | None, str | None]] = set()

    # -- descriptors -----------------------------------------------------------------------------------------

    @remembered
    def link(self, fd: int) -> str | None:
        """What a descriptor of the process is: ``pipe:[123]``, ``socket:[123]``, ``anon_inode:[eventfd]``, a path."""
        return self._link(f"{self.pid}/fd/{fd}")

    @remembered
    def info(self, descriptor: Descriptor) -> DescriptorInfo | None:
        """More about an open descriptor, of any process; None where it may not be read."""
        text = self._read(f"{descriptor.pid}/fdinfo/{descriptor.fd}", _MOST_OF_ONE_DESCRIPTOR)
        return _info(text) if text else None

    def having(self, link: str) -> Sequence[Descriptor]:
        """The descriptors that lead to a pipe, a socket or a path; of paths, those in /dev only if it is memory.

        The search through other processes ends after a limited time, and some may not be read; see `complete`.
        """
        return self._having.get(link, ())

    @cached_property
    def _having(self) -> Mapping[str, Sequence[Descriptor]]:
        found: dict[str, list[Descriptor]] = {}
        self._scan(self.pid, found, math.inf)
        end = time.monotonic() + self._seconds
        for pid in self._others(end):
            self._scan(pid, found, end)
        return found

    def _scan(self, pid: int, found: dict[str, list[Descriptor]], end: float) -> None:
        folder = f"{self._root}/{pid}/fd"
        try:
            names = os.listdir(folder)
        except PermissionError:
            self.complete = False
            return
        except OSError:  # it has ended
            return
        for count, name in enumerate(names):
            if not count % _CLOCK_PERIOD and time.monotonic() > end:
                self.complete = False
                return
            try:
                link = _text(os.readlink(f"{folder}/{name}"))
            except OSError:
                continue
            if link.startswith(("pipe:", "socket:")) or is_path(link):
                found.setdefault(link, []).append(Descriptor(pid, int(name)))

    # -- sockets ---------------------------------------------------------------------------------------------

    def socket(self, inode: int) -> Socket | None:
        """The socket of an inode, or None."""
        return self._sockets.get(inode)

    def other_end(self, inode: int) -> int | None:
        """The inode of the connected socket: 0 if no file is left, None if it is not on this host."""
        found = self.socket(inode)
        if found is None or found.listening:
            return None
        if found.protocol == "unix":
            return self._unix_sockets.peers.get(inode)
        swapped = self._inodes.get((found.protocol, found.remote, found.local), ()) if found.remote else ()
        return swapped[0] if len(swapped) == 1 else None

    def queued_at(self, inode: int) -> Sequence[int] | None:
        """The listening sockets (inodes) in one of whose queues a connection waits for accept().

        :param inode: of the socket that has connected.
        :return: None if the connection is in no queue; empty if the listening socket is not known.
        """
        found = self.socket(inode)
        if found is None or found.listening:
            return None
        if found.protocol == "unix":
            listener = self._unix_sockets.queued.get(inode)
            return None if listener is None else (listener,)
        if found.remote is None or (found.protocol, found.remote, found.local) not in self._queued:
            return None
        port = found.remote.rpartition(":")[2]
        # a socket that listens at every address of IPv6 may do so for IPv4 too
        places = (found.remote, f"[::]:{port}") if found.remote.startswith("[") else (
            found.remote, f"0.0.0.0:{port}", f"[::]:{port}")
        every = [self._listeners(found.protocol, place) for place in places]
        return next(filter(None, every), ())

    @cached_property
    def _unix_sockets(self) -> UnixSockets:
        # netlink reports the debugger's own network namespace
        return self._read_unix() if self._shares("net") else UnixSockets({}, {})

    def listener(self, protocol: str, address: str) -> int | None:
        """Inode of the only socket that listens at an address."""
        found = self._listeners(protocol, address)
        return found[0] if len(found) == 1 else None

    def _listeners(self, protocol: str, address: str) -> list[int]:
        sockets = self._sockets  # fills `_inodes` too
        return [inode for inode in self._inodes.get((protocol, address, None), ()) if sockets[inode].listening]

    @cached_property
    def _sockets(self) -> Mapping[int, Socket]:
        sockets: dict[int, Socket] = {}
        for name, row in (("unix", _unix_row), ("tcp", _row), ("tcp6", _row), ("udp", _row), ("udp6", _row)):
            # the first line is a heading, and what follows the last newline is cut off
            for line in (self._read(f"{self.pid}/net/{name}", _MOST_BYTES) or "").split("\n")[1:-1]:
                try:
                    inode, found = row(name, line)
                except (ValueError, IndexError, OSError):
                    continue
                sockets[inode] = found
                self._inodes.setdefault((found.protocol, found.local, found.remote), []).append(inode)
                if found.queued:
                    self._queued.add((found.protocol, found.local, found.remote))
        return sockets

    # -- locks on files --------------------------------------------------------------------------------------

    def file(self, fd: int) -> str | None:
        """Device and inode of a descriptor's file, as locks name it; None if the kernel (before 5.14) does not tell."""
        info = self.info(Descriptor(self.pid, fd))
        if info is None or info.inode is None:
            return None
        mount = self._mount(info.mount)
        return f"{mount[0]}:{info.inode}" if mount is not None else None

    def stores_files(self, mount: int) -> bool:
        """Whether a mount of the process is of a file system that has files, not devices or tables of the kernel's."""
        found = self._mount(mount)
        return found is not None and found[1] not in _NO_FILES

    def _mount(self, mount: int) -> tuple[str, str] | None:
        """Device and type of a file system."""
        return self._mounts.get(mount)

    @cached_property
    def _mounts(self) -> Mapping[int, tuple[str, str]]:
        mounts = {}
        for line in self._lines(f"{self.pid}/mountinfo"):
            head, _, tail = line.partition(" - ")
            try:
                number, _, device = head.split(" ", 3)[:3]
                major, minor = device.split(":")
                mounts[int(number)] = f"{int(major):02x}:{int(minor):02x}", tail.partition(" ")[0]
            except ValueError:
                continue
        return mounts

    def locks(self, file: str) -> Sequence[FileLock]:
        """The locks that are held on a file, which is named as `file` names it."""
        return self._locks.get(file, ())

    @cached_property
    def _locks(self) -> Mapping[str, Sequence[FileLock]]:
        locks: dict[str, list[FileLock]] = {}
        for lock in filter(None, map(_file_lock, self._lines("locks"))):
            locks.setdefault(lock.file, []).append(lock)
        return locks

    # -- processes -------------------------------------------------------------------------------------------

    def name(self, pid: int) -> str | None:
        """The name of a process, by the debugger's number; None if there is none."""
        text = self._read(f"{pid}/comm", _MOST_CHARACTERS)
        return text.rstrip("\n") if text else None

    @remembered
    def children(self) -> Sequence[int]:
        """The process's children, by the debugger's numbers."""
        others = self._others(time.monotonic() + self._seconds)
        return sorted(pid for pid in others if self._parent(pid) == self.pid)

    def child(self, number: int) -> int | None:
        """The debugger's number of a process, given the number by which the process itself knows it."""
        if len(self._numbers(self.pid)) <= 1:  # in the debugger's namespace, or the kernel does not tell (before 4.1)
            return number
        return next((pid for pid in self.children() if self._numbers(pid)[-1:] == [str(number)]), None)

    def parent_threads(self) -> tuple[int | None, frozenset[int]]:
        """The first thread of the process's parent, and all of its threads, by the numbers that the process knows.

        The parent may be another process than the one that forked: that one may have ended.
        """
        parent = self._parent(self.pid)
        depth = max(len(self._numbers(self.pid)), 1)
        if not parent:
            return None, frozenset()
        try:
            names = itertools.islice(os.scandir(f"{self._root}/{parent}/task"), _MOST_PROCESSES)
            tasks = [int(entry.name) for entry in names if entry.name.isdigit()]
        except OSError:
            return None, frozenset()
        known = {}
        for task in tasks:
            # in a namespace of its own the process knows the parent's threads by other numbers, or by none
            numbers = self._numbers(task) if depth > 1 else [str(task)]
            if len(numbers) >= depth:
                known[task] = int(numbers[depth - 1])
        return known.get(parent), frozenset(known.values())

    def caught_signals(self) -> int | None:
        """The signals that the process has handlers for: bit N - 1 is that of signal N; None if not known."""
        try:
            return int(self._status(self.pid, "SigCgt"), 16)
        except ValueError:
            return None

    def _status(self, pid: int, wanted: str) -> str:
        """A line of a process's status, without its name; empty if there is none."""
        for line in self._lines(f"{pid}/status", _MOST_OF_ONE_DESCRIPTOR):
            name, _, value = line.partition(":")
            if name == wanted:
                return value
        return ""

    def is_private(self, address: int) -> bool:
        """Whether memory is surely the process's own: no other process can have a lock there."""
        return any(region.start <= address < region.end and not region.shared for region in self.regions())

    @remembered
    def regions(self) -> tuple[Region, ...]:
        """The address space, by ascending address; empty if the process may not be read."""
        return tuple(_region(match) for match in map(_MAPPING.match, self._lines(f"{self.pid}/maps")) if match)

    def now(self, clock: int) -> float | None:
        """What a clock tells the process, in seconds; None if it may tell it another time than the debugger."""
        if clock not in _CLOCKS or not (clock == time.CLOCK_REALTIME or self._shares("time")):
            return None
        return time.clock_gettime(clock)

    def _shares(self, namespace: str) -> bool:
        """Whether the process is in the debugger's namespace; also where there are none (time: before Linux 5.6)."""
        here, there = (self._link(f"{process}/ns/{namespace}") for process in ("self", self.pid))
        return here == there

    def _parent(self, pid: int) -> int | None:
        text = self._read(f"{pid}/stat", 4096)
        try:  # the name stands in parentheses and may have any character; the state comes next
            return int(text.rpartition(")")[2].split()[1]) if text else None
        except (ValueError, IndexError):
            return None

    def _numbers(self, pid: int) -> list[str]:
        """Its numbers from the debugger's PID namespace to its own."""
        return self._status(pid, "NSpid").split()

    def _others(self, end: float) -> Iterator[int]:
        """The numbers of other processes, those begun about the same time first, while there is time."""
        try:
            pids = [int(name) for name in os.listdir(self._root) if name.isdigit()]
        except OSError:
            pids = []
        pids.sort(key=lambda pid: abs(pid - self.pid))
        for count, pid in enumerate(pids):
            if count == _MOST_PROCESSES or time.monotonic() > end:
                self.complete = False
                return
            if pid != self.pid:
                yield pid

    # -- files -----------------------------------------------------------------------------------------------

    def _link(self, path: str) -> str | None:
        try:
            return _text(os.readlink(f"{self._root}/{path}"))
        except OSError:
            return None

    def _lines(self, path: str, limit: int = _MOST_BYTES) -> list[str]:
        return (self._read(path, limit) or "").splitlines()

    def _read(self, path: str, limit: int) -> str | None:
        try:
            # one read() of a file of /proc may give less than there is
            with open(os.open(f"{self._root}/{path}", os.O_RDONLY | os.O_CLOEXEC), "rb") as file:
                return file.read(limit).decode("utf-8", "backslashreplace")
        except OSError:  # there is none, or the process has ended
            return None


def is_path(link: str) -> bool:
    """Whether what a descriptor is may be a named pipe or a file: a path, but not that of a device."""
    return link.startswith("/") and (not link.startswith("/dev/") or link.startswith("/dev/shm/"))


def _text(raw: str) -> str:
    text = raw if raw.isascii() else os.fsencode(raw).decode("utf-8", "backslashreplace")
    return text[:_MOST_CHARACTERS]


def _region(match: re.Match[str]) -> Region:
    start, end, permissions, kind, offset, path = match.groups()
    return Region(int(start, 16), int(end, 16), permissions.replace("-", ""), _text(path) or None, int(offset, 16),
                  kind == "s")


def _info(text: str) -> DescriptorInfo | None:
    match = _FDINFO.search(text)
    if match is None:
        return None
    flags, inode, process = int(match[1], 8), match[3], _PROCESS.search(text)
    access = flags & os.O_ACCMODE
    return DescriptorInfo(access != os.O_WRONLY, access != os.O_RDONLY, int(match[2]), int(inode) if inode else None,
                          tuple([(int(fd), int(its, 16) if its else None) for fd, its in _WATCHED.findall(text)]),
                          int(process[1]) if process else None,
                          tuple(filter(None, map(_file_lock, _LOCK.findall(text)))), bool(flags & os.O_NONBLOCK))


def _file_lock(line: str) -> FileLock | None:
    """A line such as ``1: POSIX  ADVISORY  WRITE 2179 fe:00:16182751 0 EOF``.

    :return: None for a lock that is only waited for, which has an arrow after its number.
    """
    words = line.split()
    if len(words) != 8:
        return None
    try:
        return FileLock(words[1], words[3] == "WRITE", int(words[4]), words[5], int(words[6]),
                        None if words[7] == "EOF" else int(words[7]))
    except ValueError:
        return None


def _row(name: str, line: str) -> tuple[int, Socket]:
    words = line.split()
    local, remote = _address(words[1]), _address(words[2])
    inode, state = int(words[9]), int(words[3], 16) if name.startswith("tcp") else None
    return inode, Socket(name[:3].upper(), local, remote if not remote.endswith(":0") else None, state == _TCP_LISTEN,
                         not inode and state in _TCP_QUEUED)


def _unix_row(name: str, line: str) -> tuple[int, Socket]:
    words = line.split(None, 7)
    path = words[7][:_MOST_CHARACTERS] if len(words) == 8 else None
    return int(words[6]), Socket(name, path, None, bool(int(words[3], 16) & _UNIX_LISTENS))


def _address(text: str) -> str:
    """An address as its table writes it: words of the machine's byte order in hexadecimal, a colon, the port."""
    host, _, port = text.partition(":")
    if len(host) == 32 and host.startswith(_MAPPED):
        host = host[24:]
    data = b"".join([struct.pack("=I", int(host[at:at + 8], 16)) for at in range(0, len(host), 8)])
    return address_text(data, int(port, 16))


def address_text(host: bytes, port: int) -> str:
    """An internet address and port, as people write them.

    :param host: 4 or 16 bytes.
    """
    if len(host) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, host)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, host)}]:{port}"
