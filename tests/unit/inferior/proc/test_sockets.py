"""Sockets, from tables in a fake directory tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdbext.inferior.proc.sock_diag import Exchange
from gdbext.inferior.proc.sockets import Socket
from tests.support.fake_proc import FakeProc

LOCALHOST = "0100007F"


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def test_tcp(fake: FakeProc) -> None:
    fake.internet("tcp", f"{LOCALHOST}:1388", "00000000:0000", 1, state=10)
    fake.internet("tcp", f"{LOCALHOST}:1388", f"{LOCALHOST}:A86A", 2)
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    fake.internet("tcp", f"{LOCALHOST}:0016", "0200A8C0:0400", 4)
    proc = fake.proc()
    assert proc.sockets.get(1) == Socket("TCP", "127.0.0.1:5000", None, True)
    assert proc.sockets.get(2) == Socket("TCP", "127.0.0.1:5000", "127.0.0.1:43114", False)
    assert proc.sockets.get(4) == Socket("TCP", "127.0.0.1:22", "192.168.0.2:1024", False)
    assert [proc.sockets.other_end(inode) for inode in (1, 2, 3, 4, 5)] == [None, 3, 2, None, None]
    assert proc.sockets.listener("TCP", "127.0.0.1:5000") == 1
    assert proc.sockets.listener("TCP", "127.0.0.1:22") is None


def test_tcp_connection_between_ipv4_and_ipv6_sockets(fake: FakeProc) -> None:
    """If a server listens for both, its end of an IPv4 connection is in the IPv6 table."""
    loopback = "00000000000000000000000001000000"
    mapped = f"0000000000000000FFFF0000{LOCALHOST}"
    fake.internet("tcp6", f"{mapped}:1388", f"{mapped}:A86A", 2)
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    fake.internet("tcp6", f"{loopback}:1F90", "00000000000000000000000000000000:0000", 4, state=10)
    proc = fake.proc()
    assert proc.sockets.other_end(3) == 2
    assert proc.sockets.other_end(2) == 3
    assert proc.sockets.get(4) == Socket("TCP", "[::1]:8080", None, True)


def test_other_end_when_its_file_is_closed(fake: FakeProc) -> None:
    fake.internet("tcp", f"{LOCALHOST}:1388", f"{LOCALHOST}:A86A", 0, state=6)
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    assert fake.proc().sockets.other_end(3) == 0


NOWHERE, LOOPBACK_6, NOWHERE_6 = "00000000", "00000000000000000000000001000000", "0" * 32
MAPPED = f"0000000000000000FFFF0000{LOCALHOST}"


@pytest.mark.parametrize(("table", "server", "listener_table", "listener"), [
    ("tcp", LOCALHOST, "tcp", LOCALHOST), ("tcp", LOCALHOST, "tcp", NOWHERE), ("tcp6", MAPPED, "tcp6", NOWHERE_6),
    ("tcp6", LOOPBACK_6, "tcp6", LOOPBACK_6), ("tcp6", LOOPBACK_6, "tcp6", NOWHERE_6)])
@pytest.mark.parametrize("state", [1, 3, 8])
def test_queued_at_when_connection_is_not_accepted(fake: FakeProc, table: str, server: str, listener_table: str,
                                                   listener: str, state: int) -> None:
    client = server if server == LOOPBACK_6 else LOCALHOST
    fake.internet(listener_table, f"{listener}:1388", f"{'0' * len(listener)}:0000", 1, state=10)
    fake.internet(table, f"{server}:1388", f"{MAPPED if server == MAPPED else client}:A86A", 0, state=state)
    fake.internet("tcp6" if client == LOOPBACK_6 else "tcp", f"{client}:A86A", f"{client}:1388", 3)
    proc = fake.proc()
    assert (proc.sockets.other_end(3), proc.sockets.queued_at(3), proc.sockets.queued_at(1)) == (0, [1], None)


@pytest.mark.parametrize("state", [2, 4, 5, 6, 7, 9, 11])
def test_queued_at_when_connection_is_closed_is_none(fake: FakeProc, state: int) -> None:
    fake.internet("tcp", f"{LOCALHOST}:1388", f"{NOWHERE}:0000", 1, state=10)
    fake.internet("tcp", f"{LOCALHOST}:1388", f"{LOCALHOST}:A86A", 0, state=state)
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    assert fake.proc().sockets.queued_at(3) is None


def test_queued_at_when_several_sockets_listen_returns_all(fake: FakeProc) -> None:
    for inode in (1, 2):
        fake.internet("tcp", f"{NOWHERE}:1388", f"{NOWHERE}:0000", inode, state=10)
    fake.internet("tcp", f"{LOCALHOST}:1388", f"{LOCALHOST}:A86A", 0)
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    assert fake.proc().sockets.queued_at(3) == [1, 2]


def test_queued_at_when_local_connection_is_not_accepted(fake: FakeProc) -> None:
    fake.local(1, "/run/server", listening=True)
    fake.local(2)
    fake.peers, fake.queued = {2: 0}, {2: 1}
    proc = fake.proc()
    assert (proc.sockets.other_end(2), proc.sockets.queued_at(2), proc.sockets.queued_at(1)) == (0, (1,), None)


def test_udp_sockets_do_not_listen(fake: FakeProc) -> None:
    fake.internet("udp", f"{LOCALHOST}:14E9", "00000000:0000", 1, state=7)
    fake.internet("udp", f"{LOCALHOST}:14EA", "00000000:0000", 2, state=10)
    proc = fake.proc()
    assert proc.sockets.get(1) == Socket("UDP", "127.0.0.1:5353", None, False, stream=False)
    assert proc.sockets.get(2) == Socket("UDP", "127.0.0.1:5354", None, False, stream=False)


def test_local_sockets(fake: FakeProc) -> None:
    fake.local(1, "/run/my server", listening=True)
    fake.local(2)
    fake.local(3, "/run/my server")
    fake.peers = {2: 3, 3: 2}
    proc = fake.proc()
    assert proc.sockets.get(1) == Socket("unix", "/run/my server", None, True)
    assert proc.sockets.get(2) == Socket("unix", None, None, False)
    assert proc.sockets.other_end(2) == 3
    assert proc.sockets.other_end(1) is None
    assert proc.sockets.listener("unix", "/run/my server") == 1


def test_listener_when_two_have_one_path_is_none(fake: FakeProc) -> None:
    """A relative path may name different files."""
    fake.local(1, "server", listening=True)
    fake.local(2, "server", listening=True)
    assert fake.proc().sockets.listener("unix", "server") is None


def test_local_sockets_in_another_network_namespace_are_unknown(fake: FakeProc) -> None:
    fake.local(2)
    fake.peers = {2: 3}
    fake.move_to_namespace("net")
    assert fake.proc().sockets.other_end(2) is None


def test_sockets_when_lines_are_malformed_skips_them(fake: FakeProc) -> None:
    for table in ("tcp", "unix", "udp6"):
        fake.socket(table, "0: nonsense")
        fake.socket(table, "0: zz:zz 00:00 0A 0 0 0 0 0 5")
    fake.local(2, "fine")
    fake.write("locks", "1: POSIX\n1: POSIX ADVISORY WRITE x fe:00:1 0 EOF\n")
    proc = fake.proc()
    assert proc.sockets.get(2) == Socket("unix", "fine", None, False)
    assert proc.sockets.get(5) is None
    assert proc.file_locks.held_on("fe:00:1") == ()


def test_exchange_of_a_connection_in_this_network_namespace(fake: FakeProc) -> None:
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    fake.internet("tcp", f"{LOCALHOST}:1388", "00000000:0000", 1, state=10)
    fake.local(9)
    fake.exchanges["127.0.0.1:43114", "127.0.0.1:5000"] = Exchange(3.0, None)
    assert [fake.proc().sockets.exchange(inode) for inode in (3, 1, 9, 5)] == [Exchange(3.0, None), None, None, None]
    fake.move_to_namespace("net")
    assert fake.proc().sockets.exchange(3) is None
