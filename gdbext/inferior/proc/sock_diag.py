"""What the kernel reports of sockets by netlink, in the network namespace of this process: see sock_diag(7).

It alone reports the peers of local sockets, and when a connection has last sent and received.

Sources: Linux 6.1 include/uapi/linux/{netlink,sock_diag,unix_diag,inet_diag,tcp}.h.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

#: Time limit, in seconds.
_SECONDS = 0.2

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST, _DUMP = 1, 0x301
_NLMSG = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # struct rtattr: length, type

_UNIX_DIAG_PEER = 2
_UNIX_DIAG_ICONS = 3
_UNIX_REQUEST = struct.Struct("=BBHIIIII")  # struct unix_diag_req: family, -, -, states, inode, attributes, cookie
_UNIX_MESSAGE = struct.Struct("=BBBBIII")  # struct unix_diag_msg: family, type, state, -, inode, cookie

_INET_DIAG_INFO = 2
#: struct inet_diag_req_v2: family, protocol, attributes, -, states; struct inet_diag_sockid: the ports and addresses in
#: the order of the network, interface, cookie.
_INET_REQUEST, _PORTS, _SOCKET_ID_END = struct.Struct("=BBBBI"), struct.Struct(">HH"), struct.Struct("=III")
_INET_MESSAGE = 72  # sizeof (struct inet_diag_msg)
#: struct tcp_info: tcpi_last_data_sent and tcpi_last_data_recv, in milliseconds ago; tcpi_bytes_received.
_LAST_SENT, _LAST_RECEIVED, _BYTES_RECEIVED = 44, 52, 128


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
    peers: dict[int, int] = {}
    queued: dict[int, int] = {}
    for body in _answers(request, _DUMP, seconds):
        _add_unix_socket(body, peers, queued)
    return UnixSockets(peers, queued)


class Exchange(NamedTuple):
    """How long ago a TCP connection has sent and received data, in seconds; `received` is None if it never has."""

    sent: float
    received: float | None

    @property
    def unanswered(self) -> float | None:
        """How long ago it has sent data, if it has received none since; else None."""
        return self.sent if self.received is None or self.sent < self.received else None


def tcp_exchange(local: str, remote: str, seconds: float = _SECONDS) -> Exchange | None:
    """When a TCP connection has last sent and received; None if the kernel does not report it.

    :param local: the address and port, as ``127.0.0.1:80`` or ``[::1]:80``.
    """
    family = socket.AF_INET6 if local.startswith("[") else socket.AF_INET
    (near, port), (far, far_port) = _split(family, local), _split(family, remote)
    request = (_INET_REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 0, 0xFFFFFFFF)
               + _PORTS.pack(port, far_port) + near.ljust(16, b"\0") + far.ljust(16, b"\0")
               + _SOCKET_ID_END.pack(0, 0xFFFFFFFF, 0xFFFFFFFF))
    for body in _answers(request, _REQUEST, seconds):
        for kind, data in _iter_records(body[_INET_MESSAGE:], _ATTRIBUTE):
            if kind == _INET_DIAG_INFO and len(data) >= _BYTES_RECEIVED + 8:
                sent, = struct.unpack_from("=I", data, _LAST_SENT)
                received, = struct.unpack_from("=I", data, _LAST_RECEIVED)
                count, = struct.unpack_from("=Q", data, _BYTES_RECEIVED)
                return Exchange(sent / 1000, received / 1000 if count else None)
    return None


def _split(family: int, address: str) -> tuple[bytes, int]:
    host, _, port = address.rpartition(":")
    return socket.inet_pton(family, host.strip("[]")), int(port)


def _answers(request: bytes, flags: int, seconds: float) -> Iterator[bytes]:
    """The bodies of the kernel's answers to one request."""
    end = time.monotonic() + seconds
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as link:
            link.settimeout(seconds)
            link.send(_NLMSG.pack(_NLMSG.size + len(request), _SOCK_DIAG_BY_FAMILY, flags, 1, 0) + request)
            while time.monotonic() < end:
                messages = list(_iter_records(link.recv(1 << 16), _NLMSG))
                yield from (body for kind, body in messages if kind == _SOCK_DIAG_BY_FAMILY)
                # NLMSG_DONE or NLMSG_ERROR ends a dump; any other request has one answer
                if flags != _DUMP or not messages or messages[-1][0] != _SOCK_DIAG_BY_FAMILY:
                    break
    except OSError:
        pass


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
