"""The sockets of a process's network namespace: their addresses, other ends, and queues of connections.

The sources are the tables in /proc/PID/net (Linux Documentation/filesystems/proc.rst), and netlink; see `sock_diag`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from gdbext.inferior.proc.files import MOST_CHARACTERS, read_lines
from gdbext.inferior.proc.sock_diag import Exchange, UnixSockets, tcp_exchange, unix_sockets
from gdbext.inferior.proc.status import shares_namespace
from gdbext.record import record

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
    other sockets any process may send. `unsent` and `unread` are the bytes in the queues of a TCP connection.
    """

    protocol: str
    local: str | None
    remote: str | None
    listening: bool
    queued: bool = False
    stream: bool = True
    unsent: int = 0
    unread: int = 0


class SocketTables:
    """The sockets of a process's network namespace; each table is read once.

    :param task: the thread by which /proc shows the process.
    :param root: the path of /proc.
    :param unix: reads the connected local sockets.
    :param exchange: reads when a TCP connection has last sent and received.
    """

    def __init__(self, task: int, root: str = "/proc", unix: Callable[[], UnixSockets] = unix_sockets,
                 exchange: Callable[[str, str], Exchange | None] = tcp_exchange) -> None:
        self._task = task
        self._root = root
        self._read_unix = unix
        self._read_exchange = exchange
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

    def exchange(self, inode: int) -> Exchange | None:
        """When a TCP connection has last sent and received; None if that is not known, or for any other socket."""
        found = self.get(inode)
        if found is None or found.protocol != "TCP" or not found.local or not found.remote or not self._is_shared:
            return None
        return self._read_exchange(found.local, found.remote)

    @cached_property
    def _is_shared(self) -> bool:
        # netlink reports the network namespace of this process
        return shares_namespace(self._task, "net", self._root)

    @cached_property
    def _unix_sockets(self) -> UnixSockets:
        return self._read_unix() if self._is_shared else UnixSockets({}, {})

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
    unsent, _, unread = words[4].partition(":")
    return inode, Socket(name[:3].upper(), local, remote if not remote.endswith(":0") else None, state == _TCP_LISTEN,
                         not inode and state in _TCP_QUEUED, name.startswith("tcp"), int(unsent, 16), int(unread, 16))


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
