"""The processes at the ends of pipes and sockets, on a /proc of files, and ends that are not known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.processes.graph import Node, find_deadlocks
from tests.support.fake_host import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def sockets(host: Host, flags: int = 0, queues: str = "0:0") -> None:
    """Process 100 has one end of a connection, 200 the other; `queues` are the bytes to send and to read of each."""
    for inode, pid in ((31, 100), (32, 200)):
        host.fake.open(3, f"socket:[{inode}]", os.O_RDWR | flags, pid=pid)
    for pid in (100, 200):
        for number, port, other in ((31, "0050", "0051"), (32, "0051", "0050")):
            row = f"   0: 0100007F:{port} 0100007F:{other} 01 {queues} 00:0 0 0 0 {number} 1 0 20 4 0 10 -1\n"
            path = host.root / str(pid) / "net" / "tcp"
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                path.write_text("heading\n")
            with open(path, "a") as file:
                file.write(row)


def test_two_ends_of_a_connection_deadlock(host: Host) -> None:
    host.process(100, "read", [3])
    host.process(200, "read", [3])
    sockets(host)
    assert host.scene().waits[Node(100, 1)].kind == "socket"
    assert host.deadlocked() == [(100, 200)]


@pytest.mark.parametrize(("queues", "lost"), [("0:0", True), ("1F:0", False), ("0:1F", False)])
def test_message_is_lost_if_no_data_is_on_the_way(queues: str, lost: bool, host: Host) -> None:
    host.process(100, "read", [3])
    host.process(200, "read", [3])
    sockets(host, queues=queues)
    scene = host.scene()
    assert [each.lost for each in find_deadlocks(scene.waits, scene.dead)] == [lost]


def test_connection_to_another_host_is_not_a_deadlock(host: Host) -> None:
    host.process(100, "read", [3])
    host.process(200, "read", [3])
    host.fake.open(3, "socket:[31]", os.O_RDWR, pid=100)
    host.fake.internet("tcp", "0100007F:0050", "0100000A:0051", 31)
    assert host.scene().waits == {}


def test_wait_for_any_of_several_descriptors(host: Host) -> None:
    host.polling([(3, 1), (6, 4)])
    host.process(200, "read", [5])
    host.pipe(11, (100, 3), (200, 4))
    host.pipe(12, (200, 5), (100, 6))
    assert explain(host.scene().waits[Node(100, 1)].awaited) == "to read pipe:[11], fd 3 or to write pipe:[12], fd 6"
    assert host.deadlocked() == [(100, 200)]


def test_poll_with_a_terminal_is_not_a_wait(host: Host) -> None:
    host.polling([(3, 1), (0, 1)])
    host.process(200, "read", [5])
    host.fake.open(0, "/dev/pts/1", os.O_RDWR)
    host.pipe(11, (100, 3), (200, 4))
    host.pipe(12, (200, 5), (100, 6))
    assert host.deadlocked() == []


def test_terminal_whose_master_is_in_a_waiting_process(host: Host) -> None:
    """As a parent that waits for the end of its child, which asks a question."""
    host.process(100, "read", [5])
    host.process(200, "read", [0])
    host.pipe(11, (100, 5), (200, 6))
    host.fake.open(3, "/dev/ptmx", os.O_RDWR, pid=100, more="tty-index:\t2\n")
    host.fake.open(0, "/dev/pts/2", os.O_RDWR, pid=200)
    (host.root / "200" / "ns").mkdir(exist_ok=True)
    os.symlink(os.readlink(host.root / "100" / "ns" / "mnt"), host.root / "200" / "ns" / "mnt")
    assert host.scene().waits[Node(200, 1)].kind == "terminal"
    assert host.deadlocked() == [(100, 200)]


def test_select_waits_for_its_descriptors(host: Host) -> None:
    host.process(100, "select", [4, 0x1000, 0, 0, 0])
    host.memory(100, 0x1000, bytes([1 << 3]))
    host.process(200, "read", [5])
    host.pipe(11, (100, 3), (200, 4))
    host.pipe(12, (200, 5), (100, 6))
    assert host.deadlocked() == [(100, 200)]


def epoll(host: Host, watched: str) -> None:
    host.process(100, "epoll_wait", [9, 0x1000, 8, 0xFFFFFFFF])
    host.fake.open(9, "anon_inode:[eventpoll]", os.O_RDWR, inode=1041, more=watched)
    host.process(200, "read", [5])
    host.pipe(11, (100, 3), (200, 4))
    host.pipe(12, (200, 5), (100, 6))


def test_epoll_waits_for_watched_descriptors(host: Host) -> None:
    epoll(host, "tfd:        3 events:       19 data:                3  pos:0 ino:b sdev:c\n")
    assert host.deadlocked() == [(100, 200)]


def test_self_pipe_in_epoll_is_not_a_wait(host: Host) -> None:
    epoll(host, "tfd:        3 events:       19 data:                3  pos:0 ino:b sdev:c\n"
                "tfd:        7 events:       19 data:                7  pos:0 ino:d sdev:c\n")
    host.pipe(13, (100, 7), (100, 8))
    assert host.deadlocked() == []


def test_closed_descriptor_in_epoll_is_not_a_wait(host: Host) -> None:
    epoll(host, "tfd:        3 events:       19 data:                3  pos:0 ino:ff sdev:c\n")
    assert host.deadlocked() == []


# -- processes of other users --------------------------------------------------------------------------------

ONE = because("other-users-unreadable", what="descriptors", count=1)
ENDS = tuple(because("only-processes-with-end", pids=(pid,)) for pid in (200, 100))


def refuse(monkeypatch: pytest.MonkeyPatch, *folders: str) -> None:
    """Descriptors and mappings that may not be read, as those of other users' processes."""
    listed, opened = os.listdir, open

    def listdir(path: str) -> list[str]:
        if str(path).endswith(folders):
            raise PermissionError
        return listed(path)

    def open_(path: Any, *arguments: Any, **others: Any) -> Any:
        if str(path).endswith(tuple(folder.replace("/fd", "/maps") for folder in folders)):
            raise PermissionError
        return opened(path, *arguments, **others)

    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr("builtins.open", open_)


def maps(vdso: int) -> str:
    """The address space of a program; the kernel's code has another address in each program."""
    return f"{vdso:x}-{vdso + 0x1000:x} r-xp 00000000 00:00 0    [vdso]\n"


def families(host: Host, flags: int, program: int = 0x7000) -> None:
    """Process 100 has forked 200; each reads a pipe that only the other writes to. Process 300 is another user's."""
    host.process(100, "read", [3])
    host.process(200, "read", [5], parent=100)
    for pid in (100, 200):
        host.maps(pid, maps(program))
    host.pipe(11, (100, 3), (200, 4), flags=flags)
    host.pipe(12, (200, 5), (100, 6), flags=flags)
    host.fake.process(300, "other")


def test_pipe_with_close_on_exec_was_made_inside(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    families(host, os.O_CLOEXEC)
    refuse(monkeypatch, "/300/fd")
    scene = host.scene()
    wait = scene.waits[Node(100, 1)]
    assert (wait.evidence, wait.why) == ("inferred", (ENDS[0], ONE))
    (found,) = find_deadlocks(scene.waits)
    assert found.why == (ENDS[0], ONE, ENDS[1], because("no-thread-can-run"))
    assert [explain(why) for why in found.why] == [
        "only process 200 has the other end", "descriptors of 1 process of another user could not be read",
        "only process 100 has the other end", "none of these threads can run"]


def test_pipe_without_close_on_exec_may_come_from_outside(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    families(host, 0)
    assert host.deadlocked() == [(100, 200)]
    refuse(monkeypatch, "/300/fd")
    assert host.scene().waits == {}


def test_one_descriptor_with_close_on_exec_is_enough(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    families(host, 0)
    # the child of a program that was started with a pipe as its standard input
    for fd in ("fd/6", "fdinfo/6"):
        (host.root / "100" / fd).unlink()
    host.fake.open(6, "pipe:[12]", os.O_WRONLY | os.O_CLOEXEC)
    refuse(monkeypatch, "/300/fd")
    assert set(host.scene().waits) == {Node(200, 1)}


def test_unreadable_processes_are_counted_without_kernel_threads(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    families(host, os.O_CLOEXEC)
    host.fake.process(2, "kthreadd", 0)
    host.fake.write("2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0\n")
    refuse(monkeypatch, "/300/fd", "/2/fd")
    assert host.scene().waits[Node(100, 1)].why[-1:] == (ONE,)
    refuse(monkeypatch, "/300/fd", "/2/fd", "/1/fd")
    assert explain(host.scene().waits[Node(100, 1)].why[-1]) == (
        "descriptors of 2 processes of other users could not be read")


def test_unreadable_links_are_counted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    families(host, os.O_CLOEXEC)
    host.fake.open(9, "pipe:[99]", pid=300)
    followed = os.readlink

    def readlink(path: str) -> str:
        if "/300/" in str(path):
            raise PermissionError
        return followed(path)

    monkeypatch.setattr(os, "readlink", readlink)
    assert host.scene().waits[Node(100, 1)].why[-1:] == (ONE,)


def test_invisible_processes_weaken_the_evidence(host: Host) -> None:
    families(host, os.O_CLOEXEC)
    (host.root / "1").rename(host.root / "gone")
    assert host.scene().waits == {}  # the parent is not known either
    host.fake.process(50, "shell")
    host.fake.write("50/maps", maps(0x9000))
    host.fake.write("100/stat", "100 (p100) S 50 50 1 0 -1 4194304\n")
    assert host.scene().waits[Node(100, 1)].why[-1:] == (because("other-users-invisible"),)


def test_fork_of_an_outside_process_needs_a_new_program(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    families(host, os.O_CLOEXEC)
    host.fake.process(50, "server")
    host.fake.write("100/stat", "100 (p100) S 50 50 1 0 -1 4194304\n")
    host.fake.write("50/maps", maps(0x7000))
    refuse(monkeypatch, "/300/fd")
    assert host.scene().waits == {}
    host.fake.write("50/maps", maps(0x9000))
    assert host.deadlocked() == [(100, 200)]


@pytest.mark.parametrize(("start", "deadlocked"), [(899, [(100, 200)]), (900, []), (901, [])])
def test_unreadable_processes_must_be_older_than_the_program(host: Host, monkeypatch: pytest.MonkeyPatch, start: int,
                                                             deadlocked: list[tuple[int, ...]]) -> None:
    families(host, os.O_CLOEXEC)
    host.fake.process(50, "server")
    host.fake.write("50/maps", maps(0x7000))
    host.fake.write("100/stat", "100 (p100) S 50 50 1 0 -1 4194304\n")
    fields = " ".join(["0"] * 13)
    for pid, begin in ((50, 900), (300, start)):
        host.fake.write(f"{pid}/stat", f"{pid} (a (b) c) S 1 1 1 0 -1 0 {fields[:-2]} {begin} 0\n")
    refuse(monkeypatch, "/300/fd")
    assert host.deadlocked() == deadlocked


@pytest.mark.parametrize(("name", "deadlocked"), [("server", []), ("sudo", [(100, 200)])])
def test_parent_of_another_user_counts_by_name(host: Host, monkeypatch: pytest.MonkeyPatch, name: str,
                                               deadlocked: list[tuple[int, ...]]) -> None:
    families(host, os.O_CLOEXEC)
    host.fake.process(50, name)
    host.fake.write("50/maps", maps(0x9000))
    host.fake.write("100/stat", "100 (p100) S 50 50 1 0 -1 4194304\n")
    refuse(monkeypatch, "/50/fd")
    assert host.deadlocked() == deadlocked


def test_visible_outside_holder_of_a_pipe_prevents_a_wait(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    families(host, os.O_CLOEXEC)
    host.fake.process(400, "reader")
    host.fake.open(9, "pipe:[11]", os.O_RDONLY, pid=400)
    assert host.deadlocked() == [(100, 200)]
    # where one was passed on, others may have been
    refuse(monkeypatch, "/300/fd")
    assert Node(100, 1) not in host.scene().waits


@pytest.mark.parametrize(("flags", "waits"), [(0, 0), (os.O_CLOEXEC, 2)])
def test_connections_need_close_on_exec(host: Host, monkeypatch: pytest.MonkeyPatch, flags: int, waits: int) -> None:
    host.process(100, "read", [3])
    host.process(200, "read", [3], parent=100)
    for pid in (100, 200):
        host.maps(pid, maps(0x7000))
    sockets(host, flags)
    host.fake.process(300, "other")
    refuse(monkeypatch, "/300/fd")
    assert len(host.scene().waits) == waits


def test_connection_to_an_unreadable_process_is_not_a_wait(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.process(100, "read", [3])
    host.maps(100, maps(0x7000))
    host.fake.open(3, "socket:[31]", os.O_RDWR | os.O_CLOEXEC)
    for number, port, other in ((31, "0050", "0051"), (32, "0051", "0050")):
        host.fake.internet("tcp", f"0100007F:{port}", f"0100007F:{other}", number)
    host.fake.process(300, "other")
    refuse(monkeypatch, "/300/fd")
    assert host.scene().waits == {}


def test_unreadable_mappings_weaken_the_evidence(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid in (100, 200):
        host.process(pid, "futex", [0x10000, 0])
        host.maps(pid, "00010000-00011000 rw-s 00000000 00:01 77   /dev/zero (deleted)\n")
        host.memory(pid, 0x10000, bytes(16))
    host.fake.process(300, "other")
    refuse(monkeypatch, "/300/fd")
    assert [explain(why) for why in host.scene().waits[Node(100, 1)].why] == [
        "only processes 100 and 200 have that memory", "mappings of 1 process of another user could not be read"]
