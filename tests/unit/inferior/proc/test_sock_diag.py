"""What netlink reports of sockets of this machine, and malformed messages."""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

import pytest

from gdbext.inferior.proc import sock_diag as module
from gdbext.inferior.proc.sock_diag import Exchange, tcp_exchange, unix_sockets


def test_real_local_sockets() -> None:
    one, other = socket.socketpair()
    with one, other:
        peers = unix_sockets().peers
        if not peers:
            pytest.skip("this kernel does not report which local sockets are connected")
        assert peers[os.fstat(one.fileno()).st_ino] == os.fstat(other.fileno()).st_ino
        assert peers[os.fstat(other.fileno()).st_ino] == os.fstat(one.fileno()).st_ino


def test_real_local_connection_when_not_accepted_is_queued(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as connected:
        listening.bind(str(tmp_path / "socket"))
        listening.listen(1)
        connected.connect(str(tmp_path / "socket"))
        inode = os.fstat(connected.fileno()).st_ino
        found = unix_sockets()
        if inode not in found.peers:
            pytest.skip("this kernel does not report which local sockets are connected")
        assert (found.peers[inode], found.queued[inode]) == (0, os.fstat(listening.fileno()).st_ino)
        accepted, _ = listening.accept()
        with accepted:
            found = unix_sockets()
            assert (found.peers[inode], found.queued.get(inode)) == (os.fstat(accepted.fileno()).st_ino, None)


@pytest.mark.parametrize("body", [
    b"", b"\1" * 15, struct.pack("=BBBBIII", 1, 1, 1, 0, 5, 0, 0) + b"\0\0\2\0",
    struct.pack("=BBBBIII", 1, 1, 1, 0, 5, 0, 0) + struct.pack("=HH", 6, 2) + b"ab"])
def test_unix_sockets_when_message_is_truncated_are_not_connected(body: bytes) -> None:
    data = struct.pack("=IHHII", 16 + len(body), 20, 0, 1, 0) + body + bytes(-len(body) % 4) + b"\1\0\0\0" + bytes(12)
    messages = list(module._iter_records(data, module._NLMSG))
    assert [kind for kind, _ in messages] == [20]
    peers: dict[int, int] = {}
    queued: dict[int, int] = {}
    module._add_unix_socket(messages[0][1], peers, queued)
    assert (peers, queued) == ({}, {})


def address(connection: socket.socket) -> tuple[str, str]:
    """Both addresses of a connection, as `tcp_exchange` takes them."""
    form = "[{}]:{}" if connection.family == socket.AF_INET6 else "{}:{}"
    return form.format(*connection.getsockname()[:2]), form.format(*connection.getpeername()[:2])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_tcp_exchange_of_a_real_connection(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError as error:
        pytest.skip(f"this machine has no {host}: {error}")
    with server, socket.create_connection(server.getsockname()[:2]) as client:
        peer, _ = server.accept()
        with peer:
            client.sendall(b"question")
            time.sleep(0.05)
            asked, was_asked = tcp_exchange(*address(client)), tcp_exchange(*address(peer))
            if asked is None or was_asked is None:
                pytest.skip("this kernel does not report when connections have sent data")
            assert asked.received is None
            assert asked.unanswered == asked.sent >= 0.03
            assert was_asked.unanswered is None
            peer.sendall(b"answer")
            time.sleep(0.05)
            answered = tcp_exchange(*address(client))
            assert answered is not None
            assert answered.unanswered is None


def test_tcp_exchange_of_no_connection_is_not_known() -> None:
    assert tcp_exchange("127.0.0.1:1", "127.0.0.1:2") is None


def test_exchange_when_nothing_was_received_or_before_is_unanswered() -> None:
    assert Exchange(3.0, None).unanswered == Exchange(3.0, 4.0).unanswered == 3.0
    assert Exchange(3.0, 3.0).unanswered is Exchange(4.0, 3.0).unanswered is None


@pytest.mark.parametrize("body", [b"", bytes(71), bytes(72) + struct.pack("=HH", 12, 2) + bytes(8)])
def test_tcp_exchange_when_message_is_truncated_is_not_known(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_answers", lambda *_: iter([body]))
    assert tcp_exchange("127.0.0.1:1", "127.0.0.1:2") is None
