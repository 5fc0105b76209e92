"""Reads /proc from a fake directory tree."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext.inferior import proc as module
from gdbext.inferior.open_files import Descriptor
from gdbext.inferior.proc import DescriptorInfo, EndedChild, FileLock, Proc, Socket, unix_sockets
from tests.support.fake_proc import DEVICE, MOUNT, FakeProc

LOCALHOST = "0100007F"


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


# -- descriptors ----------------------------------------------------------------------------------------------

def test_link(fake: FakeProc) -> None:
    fake.open(3, "pipe:[7]")
    proc = fake.proc()
    assert proc.link(3) == "pipe:[7]"
    assert proc.link(4) is None


def test_text_is_bounded_and_can_be_encoded(fake: FakeProc) -> None:
    os.symlink(b"/tmp/\xff" + b"x" * 3000, os.fsencode(fake.root) + b"/100/fd/3")
    link = fake.proc().link(3)
    assert link is not None
    assert link.startswith("/tmp/\\xffx")
    assert len(link) == 512
    (fake.root / "100" / "comm").write_bytes(b"\xfe" * 4096)
    name = fake.proc().name(100)
    assert name is not None
    assert len(name.encode()) < 4096


@pytest.mark.parametrize(("flags", "reads", "writes"), [
    (os.O_RDONLY, True, False), (os.O_WRONLY, False, True), (os.O_RDWR | os.O_NONBLOCK, True, True)])
def test_info(fake: FakeProc, flags: int, reads: bool, writes: bool) -> None:
    fake.open(3, "pipe:[7]", flags)
    assert fake.proc().info(Descriptor(100, 3)) == DescriptorInfo(
        reads, writes, MOUNT, 7, nonblocking=bool(flags & os.O_NONBLOCK))


def test_info_of_old_kernels_has_no_inode(fake: FakeProc) -> None:
    fake.open(3, "/tmp/x")
    fake.write("100/fdinfo/3", "pos:\t0\nflags:\t02\nmnt_id:\t22\n")
    proc = fake.proc()
    assert proc.info(Descriptor(100, 3)) == DescriptorInfo(True, True, 22, None)
    assert proc.file(3) is None


def test_info_of_epoll_and_pidfd(fake: FakeProc) -> None:
    fake.open(3, "anon_inode:[eventpoll]", os.O_RDWR, more=(
        "tfd:       14 events:       19 data:                0  pos:0 ino:148dd sdev:9\n"
        "tfd:        4 events: 80000019 data: ffffffffffffffff\n"))
    fake.open(4, "anon_inode:[pidfd]", os.O_RDWR, more="Pid:\t88\nNSpid:\t88\n")
    proc = fake.proc()
    epoll, pidfd = proc.info(Descriptor(100, 3)), proc.info(Descriptor(100, 4))
    assert epoll is not None
    assert epoll.watched == ((14, 0x148DD), (4, None))
    assert pidfd is not None
    assert pidfd.process == 88


@pytest.mark.parametrize("text", ["", "nonsense", "flags:\t09\nmnt_id:\t1\n", "flags:\t02\n", "pos:\t0\nflags:\t\n"])
def test_info_when_malformed_is_none(fake: FakeProc, text: str) -> None:
    fake.open(3, "pipe:[7]")
    fake.write("100/fdinfo/3", text)
    assert fake.proc().info(Descriptor(100, 3)) is None


def test_having_returns_all_descriptors_of_a_pipe(fake: FakeProc) -> None:
    fake.process(88, "sh")
    fake.open(3, "pipe:[7]")
    fake.open(4, "pipe:[8]")
    fake.open(1, "pipe:[7]", os.O_WRONLY, pid=88)
    proc = fake.proc()
    assert set(proc.having("pipe:[7]")) == {Descriptor(100, 3), Descriptor(88, 1)}
    assert proc.having("pipe:[9]") == ()
    assert proc.complete


def test_having_when_file_cannot_be_shared_is_empty(fake: FakeProc) -> None:
    for fd, link in enumerate(["/dev/null", "/dev/pts/0", "anon_inode:[eventfd]"]):
        fake.open(fd, link)
        assert fake.proc().having(link) == ()
    fake.open(9, "/dev/shm/fifo")
    assert fake.proc().having("/dev/shm/fifo") == [Descriptor(100, 9)]


def test_having_when_processes_are_unreadable_is_incomplete(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.process(88, "sh")
    fake.open(3, "pipe:[7]")
    listdir = os.listdir

    def refuse(path: str) -> list[str]:
        if path.endswith("/88/fd"):
            raise PermissionError
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    proc = fake.proc()
    assert proc.having("pipe:[7]") == [Descriptor(100, 3)]
    assert not proc.complete


def test_having_when_time_runs_out_is_incomplete(fake: FakeProc) -> None:
    fake.process(88, "sh")
    for pid in (100, 88):
        fake.open(3, "pipe:[7]", pid=pid)
    proc = fake.proc(seconds=-1)
    assert proc.having("pipe:[7]") == [Descriptor(100, 3)]
    assert not proc.complete


def test_processes_that_end_during_the_search_are_skipped(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.open(3, "pipe:[7]")
    (fake.root / "88").mkdir()  # its directory is listed, but now empty
    proc = fake.proc()
    assert proc.having("pipe:[7]") == [Descriptor(100, 3)]
    assert proc.complete
    assert proc.children() == []
    assert proc.name(88) is None


# -- sockets --------------------------------------------------------------------------------------------------

def test_tcp(fake: FakeProc) -> None:
    fake.internet("tcp", f"{LOCALHOST}:1388", "00000000:0000", 1, state=10)
    fake.internet("tcp", f"{LOCALHOST}:1388", f"{LOCALHOST}:A86A", 2)
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    fake.internet("tcp", f"{LOCALHOST}:0016", "0200A8C0:0400", 4)
    proc = fake.proc()
    assert proc.socket(1) == Socket("TCP", "127.0.0.1:5000", None, True)
    assert proc.socket(2) == Socket("TCP", "127.0.0.1:5000", "127.0.0.1:43114", False)
    assert proc.socket(4) == Socket("TCP", "127.0.0.1:22", "192.168.0.2:1024", False)
    assert [proc.other_end(inode) for inode in (1, 2, 3, 4, 5)] == [None, 3, 2, None, None]
    assert proc.listener("TCP", "127.0.0.1:5000") == 1
    assert proc.listener("TCP", "127.0.0.1:22") is None


def test_tcp_connection_between_ipv4_and_ipv6_sockets(fake: FakeProc) -> None:
    """If a server listens for both, its end of an IPv4 connection is in the IPv6 table."""
    loopback = "00000000000000000000000001000000"
    mapped = f"0000000000000000FFFF0000{LOCALHOST}"
    fake.internet("tcp6", f"{mapped}:1388", f"{mapped}:A86A", 2)
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    fake.internet("tcp6", f"{loopback}:1F90", "00000000000000000000000000000000:0000", 4, state=10)
    proc = fake.proc()
    assert proc.other_end(3) == 2
    assert proc.other_end(2) == 3
    assert proc.socket(4) == Socket("TCP", "[::1]:8080", None, True)


def test_other_end_when_its_file_is_closed(fake: FakeProc) -> None:
    fake.internet("tcp", f"{LOCALHOST}:1388", f"{LOCALHOST}:A86A", 0, state=6)
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    assert fake.proc().other_end(3) == 0


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
    assert (proc.other_end(3), proc.queued_at(3), proc.queued_at(1)) == (0, [1], None)


@pytest.mark.parametrize("state", [2, 4, 5, 6, 7, 9, 11])
def test_queued_at_when_connection_is_closed_is_none(fake: FakeProc, state: int) -> None:
    fake.internet("tcp", f"{LOCALHOST}:1388", f"{NOWHERE}:0000", 1, state=10)
    fake.internet("tcp", f"{LOCALHOST}:1388", f"{LOCALHOST}:A86A", 0, state=state)
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    assert fake.proc().queued_at(3) is None


def test_queued_at_when_several_sockets_listen_returns_all(fake: FakeProc) -> None:
    for inode in (1, 2):
        fake.internet("tcp", f"{NOWHERE}:1388", f"{NOWHERE}:0000", inode, state=10)
    fake.internet("tcp", f"{LOCALHOST}:1388", f"{LOCALHOST}:A86A", 0)
    fake.internet("tcp", f"{LOCALHOST}:A86A", f"{LOCALHOST}:1388", 3)
    assert fake.proc().queued_at(3) == [1, 2]


def test_queued_at_when_local_connection_is_not_accepted(fake: FakeProc) -> None:
    fake.local(1, "/run/server", listening=True)
    fake.local(2)
    fake.peers, fake.queued = {2: 0}, {2: 1}
    proc = fake.proc()
    assert (proc.other_end(2), proc.queued_at(2), proc.queued_at(1)) == (0, (1,), None)


def test_udp_sockets_do_not_listen(fake: FakeProc) -> None:
    fake.internet("udp", f"{LOCALHOST}:14E9", "00000000:0000", 1, state=7)
    fake.internet("udp", f"{LOCALHOST}:14EA", "00000000:0000", 2, state=10)
    proc = fake.proc()
    assert proc.socket(1) == Socket("UDP", "127.0.0.1:5353", None, False)
    assert proc.socket(2) == Socket("UDP", "127.0.0.1:5354", None, False)


def test_local_sockets(fake: FakeProc) -> None:
    fake.local(1, "/run/my server", listening=True)
    fake.local(2)
    fake.local(3, "/run/my server")
    fake.peers = {2: 3, 3: 2}
    proc = fake.proc()
    assert proc.socket(1) == Socket("unix", "/run/my server", None, True)
    assert proc.socket(2) == Socket("unix", None, None, False)
    assert proc.other_end(2) == 3
    assert proc.other_end(1) is None
    assert proc.listener("unix", "/run/my server") == 1


def test_listener_when_two_have_one_path_is_none(fake: FakeProc) -> None:
    """A relative path may name different files."""
    fake.local(1, "server", listening=True)
    fake.local(2, "server", listening=True)
    assert fake.proc().listener("unix", "server") is None


def test_local_sockets_in_another_network_namespace_are_unknown(fake: FakeProc) -> None:
    fake.local(2)
    fake.peers = {2: 3}
    os.unlink(fake.root / "100" / "ns" / "net")
    os.symlink("net:[5]", fake.root / "100" / "ns" / "net")
    assert fake.proc().other_end(2) is None


def test_sockets_when_lines_are_malformed_skips_them(fake: FakeProc) -> None:
    for table in ("tcp", "unix", "udp6"):
        fake.socket(table, "0: nonsense")
        fake.socket(table, "0: zz:zz 00:00 0A 0 0 0 0 0 5")
    fake.local(2, "fine")
    fake.write("locks", "1: POSIX\n1: POSIX ADVISORY WRITE x fe:00:1 0 EOF\n")
    proc = fake.proc()
    assert proc.socket(2) == Socket("unix", "fine", None, False)
    assert proc.socket(5) is None
    assert proc.locks("fe:00:1") == ()


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


# -- locks on files, mounts -----------------------------------------------------------------------------------

def test_locks(fake: FakeProc) -> None:
    fake.open(3, "/tmp/x", inode=55)
    fake.lock("FLOCK", "WRITE", 88, 55)
    fake.lock("FLOCK", "READ", 100, 55, waits=True)
    fake.lock("POSIX", "READ", 89, 55, "105 110")
    fake.lock("POSIX", "READ", 89, 56)
    proc = fake.proc()
    file = proc.file(3)
    assert file == f"{DEVICE}:55"
    assert proc.locks(file) == [FileLock("FLOCK", True, 88, file, 0, None),
                                FileLock("POSIX", False, 89, file, 105, 110)]


def test_locks_taken_through_a_descriptor(fake: FakeProc) -> None:
    line = fake.lock("OFDLCK", "WRITE", -1, 55)
    fake.open(3, "/tmp/x", inode=55, more=line)
    proc = fake.proc()
    info = proc.info(Descriptor(100, 3))
    assert info is not None
    assert info.locks == (FileLock("OFDLCK", True, -1, f"{DEVICE}:55", 0, None),) == tuple(proc.locks(f"{DEVICE}:55"))


@pytest.mark.parametrize(("lock", "wanted", "overlap"), [
    ((0, None), (0, None), True), ((0, None), (100, 109), True), ((105, 105), (100, 109), True),
    ((110, None), (100, 109), False), ((0, 99), (100, 109), False), ((0, 99), (99, None), True)])
def test_overlaps(lock: tuple[int, int | None], wanted: tuple[int, int | None], overlap: bool) -> None:
    assert FileLock("POSIX", True, 1, "", *lock).overlaps(*wanted) == overlap


def test_mounts(fake: FakeProc) -> None:
    proc = fake.proc()
    assert proc.stores_files(MOUNT)
    assert not proc.stores_files(21), "it is a proc"
    assert not proc.stores_files(5), "it is not known"
    fake.open(3, "/tmp/x", mount=5)
    assert fake.proc().file(3) is None


def test_mount_outside_of_the_root_directory_is_found_in_the_table_of_the_first_process(fake: FakeProc) -> None:
    fake.process(1, "init", 0)
    fake.write("1/mountinfo", "5 1 254:1 / / rw - ext4 /dev/vdb rw\n")
    fake.open(3, "/tmp/x", mount=5)
    proc = fake.proc()
    assert proc.stores_files(5)
    assert proc.file(3) == "fe:01:7"


@pytest.mark.parametrize(("mount", "inode", "file"), [(5, 55, f"{DEVICE}:55"), (6, 55, None), (5, 56, None)])
def test_device_of_a_mount_that_is_not_listed_is_that_of_a_lock_on_the_same_file(
        fake: FakeProc, mount: int, inode: int, file: str | None) -> None:
    fake.open(3, "/tmp/x", mount=5, inode=55)
    fake.process(88, "web")
    fake.open(4, "/tmp/x", pid=88, mount=mount, inode=inode, more=fake.lock("FLOCK", "WRITE", 88, inode))
    assert fake.proc().file(3) == file


# -- processes ------------------------------------------------------------------------------------------------

def test_children(fake: FakeProc) -> None:
    fake.children({205: "a) S 7 1 (b", 201: "sh"})
    fake.process(300, "other", parent=1)
    proc = fake.proc()
    assert proc.children() == [201, 205]
    assert proc.name(205) == "a) S 7 1 (b"
    assert proc.child(201) == 201


@pytest.mark.parametrize(("state", "threads", "code", "ended"), [
    ("Z", 1, 9, EndedChild(201, signal=9)), ("Z", 1, 0x8B, EndedChild(201, signal=11)),
    ("Z", 1, 3 << 8, EndedChild(201, status=3)), ("Z", 1, 0, EndedChild(201)), ("Z", 2, 9, None), ("S", 1, 0, None)])
def test_ended_children_are_zombies_without_other_threads(fake: FakeProc, state: str, threads: int, code: int,
                                                          ended: EndedChild | None) -> None:
    fake.children({201: "sh"})
    fields = [state, "100", *["0"] * 15, str(threads), *["0"] * 31, str(code)]
    fake.write("201/stat", f"201 (sh) {' '.join(fields)}\n")
    assert list(fake.proc().ended_children()) == ([ended] if ended is not None else [])


def test_ended_child_of_a_real_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert EndedChild(child.pid, signal=9) in Proc(os.getpid(), seconds=60).ended_children()
    child.wait()


def test_generation_of_descendants_and_of_others(fake: FakeProc) -> None:
    fake.children({201: "sh"})
    fake.process(202, "sleep", parent=201)
    fake.process(203, "other")
    proc = fake.proc()
    assert [proc.generation(pid) for pid in (201, 202, 203, 100, 1, 999)] == [1, 2, None, None, None, None]


def test_child_in_a_pid_namespace(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.write("100/status", "Name:\tserver\nNSpid:\t100\t1\n")
    fake.process(201, "sh", 100, [201, 2])
    proc = fake.proc()
    assert proc.child(2) == 201
    assert proc.child(201) is None


def test_child_when_kernel_lacks_nspid(fake: FakeProc) -> None:
    fake.write("100/status", "Name:\tserver\n")
    assert fake.proc().child(201) == 201


def test_clocks(fake: FakeProc) -> None:
    proc = fake.proc()
    now = proc.now(time.CLOCK_MONOTONIC)
    assert now is not None
    assert abs(now - time.clock_gettime(time.CLOCK_MONOTONIC)) < 60
    assert proc.now(time.CLOCK_PROCESS_CPUTIME_ID) is None
    assert proc.now(-1) is None
    os.unlink(fake.root / "100" / "ns" / "time")
    os.symlink("time:[5]", fake.root / "100" / "ns" / "time")
    assert fake.proc().now(time.CLOCK_MONOTONIC) is None
    assert fake.proc().now(time.CLOCK_REALTIME) is not None


def test_proc_when_process_does_not_exist_is_empty(tmp_path: Path) -> None:
    proc = Proc(5, str(tmp_path / "nothing"))
    assert (proc.link(0), proc.info(Descriptor(5, 0)), proc.name(5), proc.file(0)) == (None, None, None, None)
    assert (proc.socket(1), proc.other_end(1), proc.listener("TCP", "127.0.0.1:80")) == (None, None, None)
    assert (list(proc.children()), list(proc.having("pipe:[1]"))) == ([], [])


# -- the process of the test ----------------------------------------------------------------------------------------

@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def test_real_descriptors(pipe: tuple[int, int]) -> None:
    proc = Proc(os.getpid())
    reader, writer = pipe
    inode = os.fstat(reader).st_ino
    link = f"pipe:[{inode}]"
    assert proc.link(reader) == link
    both_ends = {Descriptor(os.getpid(), fd) for fd in pipe}
    assert both_ends <= set(proc.having(link))
    for fd in pipe:
        info = proc.info(Descriptor(os.getpid(), fd))
        assert info is not None
        assert (info.reads, info.writes) == (fd == reader, fd == writer)
        assert info.inode in (None, inode)
    assert proc.name(os.getpid()) == Path("/proc/self/comm").read_text().strip()


def test_auxiliary_vector() -> None:
    found = Proc(os.getpid()).auxiliary()
    assert found[6] == os.sysconf("SC_PAGE_SIZE")
    assert Proc(1 << 30).auxiliary() == {}


def test_names_of_mapped_files_may_separate_lines(fake: FakeProc) -> None:
    """The kernel escapes a newline in a name, and nothing else."""
    fake.write(f"{fake.pid}/maps", "1000-2000 r-xp 00000000 fe:00 5    /tmp/lib\\012a.so\n"
                                   "3000-4000 r--p 00000000 fe:00 6    /tmp/\u2028b\x0c\x85.so\n")
    assert [region.path for region in fake.proc().regions()] == ["/tmp/lib\na.so", "/tmp/\u2028b\x0c\x85.so"]


# -- files ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("root", "path", "expected"), [
    ("/", "/usr/lib/libc.so.6", "/usr/lib/libc.so.6"), (None, "/usr/lib/libc.so.6", "/usr/lib/libc.so.6"),
    ("/srv/tree", "/srv/tree/usr/lib/libc.so.6", "/usr/lib/libc.so.6"), ("/srv/tree", "/srv/tree2/x", "/srv/tree2/x"),
    ("/srv/tree", "/usr/lib/libc.so.6", "/usr/lib/libc.so.6")])
def test_mapped_file_is_opened_in_the_root_of_the_process(fake: FakeProc, root: str | None, path: str,
                                                          expected: str) -> None:
    if root is not None:
        os.symlink(root, fake.root / "100" / "root")
    assert fake.proc().mapped_file(path) == f"{fake.root}/100/root{expected}"
