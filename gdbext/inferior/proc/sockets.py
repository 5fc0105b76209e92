"""The sockets of a process's network namespace: their addresses, other ends, and queues of connections.

The sources are the tables in /proc/PID/net (Linux Documentation/filesystems/proc.rst), and netlink, which alone reports
the peers of local sockets (include/uapi/linux/unix_diag.h, sock_diag(7)).
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from gdbext.inferior.proc.files import MOST_CHARACTERS, read_lines
from gdbext.inferior.proc.status import shares_namespace
from gdbext.record import record

#: Time limit of netlink, in seconds.
_SECONDS = 0.2

_NETLINK_SOCK_DIAG = 4
_UNIX_DIAG_PEER = 2
_UNIX_DIAG_ICONS = 3
_NLMSG = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_UNIX_REQUEST = struct.Struct("=BBHIIIII")  # struct unix_diag_req: family, -, -, states, inode, attributes, cookie
_UNIX_MESSAGE = struct.Struct("=BBBBIII")  # struct unix_diag_msg: family, type, state, -, inode, cookie
_ATTRIBUTE = struct.Struct("=HH")  # struct rtattr: length, type

_TCP_LISTEN = 0x0A
#: States of a connection without an inode that waits for accept(): established, the handshake unfinished (a full
#: queue, TCP_DEFER_ACCEPT), shut down by the client. A closed connection has none of these states.
_TCP_QUEUED = (0x01, 0x03, 0x08)
_UNIX_LISTENS = 0x10000
_STREAMS = (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET
#: The first 12 bytes of an IPv4 address in the table of IPv6 sockets.
_MAPPED = "0000000000000000FFFF0000"


@record
class Socket:
    """A socket in the process's network namespace; the address of a local socket is a path, None if it has no name.

    `queued` is true for the listener's end of a connection that is not yet accepted. A `stream` has one other end; to
    other sockets any process may send.
    """

    protocol: str
    local: str | None
    remote: str | None
    listening: bool
    queued: bool = False
    stream: bool = True


class UnixSockets(NamedTuple):
    """Connected local sockets, all by inode.

    `peers` maps a socket to its other end, which is 0 if no process has that open. `queued` maps a socket whose
    connection is not yet accepted to the listening socket.
    """

    peers: Mapping[int, int]
    queued: Mapping[int, int]


def unix_sockets(seconds: float = _SECONDS) -> UnixSockets:
    """Read the connected local sockets of this network namespace; empty if the kernel does not report them."""
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
                for kind, body in messages:
                    if kind == sock_diag_by_family:
                        _add_unix_socket(body, peers, queued)
                if not messages or messages[-1][0] != sock_diag_by_family:  # NLMSG_DONE, or NLMSG_ERROR
                    break
    except OSError:
        pass
    return UnixSockets(peers, queued)


def _iter_records(data: bytes, header: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """Iterate over netlink messages or attributes: (type, contents). A header begins with length and type."""
    at = 0
    while at + header.size <= len(data):
        length, kind = header.unpack_from(data, at)[:2]
        if length < header.size:
            return
        yield kind, data[at + header.size:at + length]
        at += (length + 3) & ~3


def _add_unix_socket(body: bytes, peers: dict[int, int], queued: dict[int, int]) -> None:
    inode = _UNIX_MESSAGE.unpack_from(body.ljust(_UNIX_MESSAGE.size, b"\0"))[4]
    for kind, data in _iter_records(body[_UNIX_MESSAGE.size:], _ATTRIBUTE):
        if kind == _UNIX_DIAG_PEER and len(data) == 4:
            peers[inode] = int.from_bytes(data, "little")
        elif kind == _UNIX_DIAG_ICONS:
            queued.update(dict.fromkeys(struct.unpack_from(f"={len(data) // 4}I", data), inode))


class SocketTables:
    """The sockets of a process's network namespace; each table is read once.

    :param task: the thread by which /proc shows the process.
    :param root: the path of /proc.
    :param unix: reads the connected local sockets.
    """

    def __init__(self, task: int, root: str = "/proc", unix: Callable[[], UnixSockets] = unix_sockets) -> None:
        self._task = task
        self._root = root
        self._read_unix = unix
        self._inodes: dict[tuple[str, str | None, str | None], list[int]] = {}
        # listeners' ends of connections that are not yet accepted: protocol, local and remote address
        self._queued: set[tuple[str, str | None, str | None]] = set()

    def get(self, inode: int) -> Socket | None:
        """The socket of an inode, or None."""
        return self._sockets.get(inode)

    def other_end(self, inode: int) -> int | None:
        """The inode of the connected socket: 0 if no descriptor is left, None if it is not on this host."""
        found = self.get(inode)
        if found is None or found.listening:
            return None
        if found.protocol == "unix":
            return self._unix_sockets.peers.get(inode)
        swapped = self._inodes.get((found.protocol, found.remote, found.local), ()) if found.remote else ()
        return swapped[0] if len(swapped) == 1 else None

    def queued_at(self, inode: int) -> Sequence[int] | None:
        """The listening sockets (inodes) that may have a connection in their queue for accept().

        :param inode: inode of the socket that has connected.
        :return: None if the connection is not in a queue; empty if the listening socket is not known.
        """
        found = self.get(inode)
        if found is None or found.listening:
            return None
        if found.protocol == "unix":
            listener = self._unix_sockets.queued.get(inode)
            return None if listener is None else (listener,)
        if found.remote is None or (found.protocol, found.remote, found.local) not in self._queued:
            return None
        port = found.remote.rpartition(":")[2]
        # a socket that listens on every IPv6 address may listen on IPv4 too
        places = (found.remote, f"[::]:{port}") if found.remote.startswith("[") else (
            found.remote, f"0.0.0.0:{port}", f"[::]:{port}")
        every = [self._listeners(found.protocol, place) for place in places]
        return next(filter(None, every), ())

    @cached_property
    def _unix_sockets(self) -> UnixSockets:
        # netlink reports the debugger's network namespace
        return self._read_unix() if shares_namespace(self._task, "net", self._root) else UnixSockets({}, {})

    def listener(self, protocol: str, address: str) -> int | None:
        """The inode of the socket that listens at an address; None if there is not exactly one."""
        found = self._listeners(protocol, address)
        return found[0] if len(found) == 1 else None

    def _listeners(self, protocol: str, address: str) -> list[int]:
        sockets = self._sockets  # fills `_inodes` too
        return [inode for inode in self._inodes.get((protocol, address, None), ()) if sockets[inode].listening]

    @cached_property
    def _sockets(self) -> Mapping[int, Socket]:
        sockets: dict[int, Socket] = {}
        for name, row in (("unix", _unix_row), ("tcp", _row), ("tcp6", _row), ("udp", _row), ("udp6", _row)):
            # the first line is a heading, and the text after the last newline is truncated
            for line in read_lines(f"{self._root}/{self._task}/net/{name}")[1:-1]:
                try:
                    inode, found = row(name, line)
                except (ValueError, IndexError, OSError):
                    continue
                sockets[inode] = found
                self._inodes.setdefault((found.protocol, found.local, found.remote), []).append(inode)
                if found.queued:
                    self._queued.add((found.protocol, found.local, found.remote))
        return sockets


def _row(name: str, line: str) -> tuple[int, Socket]:
    words = line.split()
    local, remote = _address(words[1]), _address(words[2])
    inode, state = int(words[9]), int(words[3], 16) if name.startswith("tcp") else None
    return inode, Socket(name[:3].upper(), local, remote if not remote.endswith(":0") else None, state == _TCP_LISTEN,
                         not inode and state in _TCP_QUEUED, name.startswith("tcp"))


def _unix_row(name: str, line: str) -> tuple[int, Socket]:
    words = line.split(None, 7)
    path = words[7][:MOST_CHARACTERS] if len(words) == 8 else None
    return int(words[6]), Socket(name, path, None, bool(int(words[3], 16) & _UNIX_LISTENS), False,
                                 int(words[4], 16) in _STREAMS)


def _address(text: str) -> str:
    """Parse an address in a socket table: hexadecimal words in the machine's byte order, a colon, the port."""
    host, _, port = text.partition(":")
    if len(host) == 32 and host.startswith(_MAPPED):
        host = host[24:]
    data = b"".join([struct.pack("=I", int(host[at:at + 8], 16)) for at in range(0, len(host), 8)])
    return address_text(data, int(port, 16))


def address_text(host: bytes, port: int) -> str:
    """Format an internet address of 4 or 16 bytes and a port."""
    if len(host) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, host)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, host)}]:{port}"
