"""Descriptors and the processes at their other ends, from a fake /proc."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gdbext.inferior.proc.sock_diag import Exchange
from gdbext.waits import descriptors
from tests.support.blocked_threads import look, on
from tests.support.fake_proc import FakeProc
from tests.support.fake_target import READ, FakeTarget
from tests.support.reasons import said

WRITE, EPOLL_WAIT = 1, 232


def test_a_process_on_another_machine() -> None:
    assert said(on(FakeTarget(), READ, 5).why) == "what it refers to cannot be seen from here"


def test_descriptor_that_cannot_be_read(live: FakeTarget) -> None:
    lock = on(live, READ, 5)
    assert (lock.name, said(lock.why)) == ("fd 5", "what it refers to cannot be read")


def test_only_this_process_has_the_other_end(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[7]", os.O_WRONLY)
    fake.open(8, "pipe:[7]")
    assert said(on(live, READ, 5).why) == "only this process has the other end: fd 6"


def test_full_pipe(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[7]", os.O_WRONLY)
    fake.open(7, "pipe:[7]", os.O_WRONLY)
    assert said(on(live, WRITE, 6).why) == "only this process has the other end: fd 5"


def test_other_end_without_a_process_is_not_open(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    assert said(on(live, READ, 5).why) == "no process has the other end open"


def connection(fake: FakeProc, pid: int | None = 88) -> None:
    """Connect fd 5 of the process with fd 4 of another one; it has sent data 3 s ago."""
    fake.process(88, "web")
    fake.open(5, "socket:[3]")
    fake.open(4, "socket:[1]", pid=pid)
    fake.internet("tcp", "0100007F:1388", "0100007F:A86A", 1)
    fake.internet("tcp", "0100007F:A86A", "0100007F:1388", 3)
    fake.exchanges["127.0.0.1:43114", "127.0.0.1:5000"] = Exchange(3.5, None)


def test_connection_without_an_answer(live: FakeTarget, fake: FakeProc) -> None:
    connection(fake)
    assert said(on(live, READ, 5).why) == (
        'the other end is fd 4 of process 88 "web"; this end sent data 3 s ago and has received none since')


def test_connection_with_an_answer(live: FakeTarget, fake: FakeProc) -> None:
    connection(fake)
    fake.exchanges["127.0.0.1:43114", "127.0.0.1:5000"] = Exchange(3.5, 2.0)
    assert said(on(live, READ, 5).why) == 'the other end is fd 4 of process 88 "web"'


def test_connection_with_the_process_itself_owes_no_answer(live: FakeTarget, fake: FakeProc) -> None:
    connection(fake, None)
    assert said(on(live, READ, 5).why) == "only this process has the other end: fd 4"


@pytest.mark.parametrize(("also", "why"), [
    ("", 'it watches fd 5, socket 127.0.0.1:43114 -> 127.0.0.1:5000 (TCP); the other end is fd 4 of process 88 "web"; '
         "this end sent data 3 s ago and has received none since"),
    ("tfd:        7 events:       19 data:                7  pos:0 ino:d sdev:c\n",
     "it watches fd 5, socket 127.0.0.1:43114 -> 127.0.0.1:5000 (TCP) and fd 7, pipe:[13]")])
def test_epoll_that_watches_a_connection(live: FakeTarget, fake: FakeProc, also: str, why: str) -> None:
    connection(fake)
    fake.open(7, "pipe:[13]")
    fake.open(9, "anon_inode:[eventpoll]", os.O_RDWR, inode=1041,
              more=f"tfd:        5 events:       19 data:                5  pos:0 ino:3 sdev:c\n{also}")
    assert said(on(live, EPOLL_WAIT, 9).why) == why


def test_terminal_and_its_master(live: FakeTarget, fake: FakeProc) -> None:
    fake.process(88, "expect", 100)
    fake.process(89, "other", 100)
    for pid in (88, 89):
        os.makedirs(fake.root / str(pid) / "ns")
        os.symlink("mnt:[4026531840]" if pid == 88 else "mnt:[5]", fake.root / str(pid) / "ns" / "mnt")
        fake.open(3, "/dev/ptmx", os.O_RDWR, pid=pid, more="tty-index:\t2\n")
    fake.open(4, "/dev/ptmx", os.O_RDWR, pid=88, more="tty-index:\t3\n")
    fake.open(0, "/dev/pts/2", os.O_RDWR)
    assert said(on(live, READ, 0).why) == 'the other end is fd 3 of process 88 "expect"'


def test_terminal_whose_master_is_not_found(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(0, "/dev/pts/2", os.O_RDWR)
    assert on(live, READ, 0).why is None


@pytest.mark.parametrize(("pid", "where"), [
    (None, "fd 4 of this process"), (88, 'fd 4 of process 88 "web"'), (0, "a listening socket that was not found")])
def test_connection_in_the_queue_of_a_listener(live: FakeTarget, fake: FakeProc, pid: int | None, where: str) -> None:
    fake.process(88, "web")
    fake.open(5, "socket:[3]")
    if pid != 0:
        fake.open(4, "socket:[1]", pid=pid)
    fake.internet("tcp", "00000000:1388", "00000000:0000", 1, state=10)
    fake.internet("tcp", "0100007F:1388", "0100007F:A86A", 0)
    fake.internet("tcp", "0100007F:A86A", "0100007F:1388", 3)
    assert said(on(live, READ, 5).why) == f"no process has accepted the connection yet; it is in the queue of {where}"


@pytest.mark.parametrize(("own", "why"), [
    (False, "no process was found that has the other end open; some processes could not be examined"),
    (True, "the other end is fd 6 of this process")])
def test_other_end_when_the_search_is_incomplete(fake: FakeProc, own: bool, why: str) -> None:
    target = FakeTarget()
    target.proc = fake.proc(seconds=-1)
    fake.process(88, "sh")
    fake.open(5, "pipe:[7]")
    if own:
        fake.open(6, "pipe:[7]", os.O_WRONLY)
    assert said(on(target, READ, 5).why) == why


def test_many_have_the_other_end(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "pipe:[7]")
    fake.open(6, "pipe:[7]", os.O_WRONLY)
    for pid in range(201, 207):
        fake.process(pid, "sh")
        fake.open(1, "pipe:[7]", os.O_WRONLY, pid=pid)
    why = said(on(live, READ, 5).why)
    assert why == "the other end is " + ", ".join(
        [f'fd 1 of process {pid} "sh"' for pid in (201, 202, 203, 204)]) + " and 3 more"


def test_named_pipe(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "/tmp/fifo", inode=3)
    fake.process(88, "sh")
    fake.open(4, "/tmp/fifo", os.O_WRONLY, pid=88, inode=3)
    fake.open(5, "/tmp/fifo", os.O_WRONLY, pid=88, inode=4)  # another file by now, or in another mount namespace
    fake.open(6, "/tmp/fifo", os.O_WRONLY, pid=88, inode=3, mount=9)
    fake.open(7, "/tmp/fifo", os.O_RDONLY, pid=88, inode=3)
    lock = on(live, READ, 5)
    assert (lock.name, said(lock.why)) == ("fd 5, /tmp/fifo", 'the other end is fd 4 of process 88 "sh"')


@pytest.mark.parametrize(("make", "why"), [
    (os.mkfifo, "a named pipe, which any process may open to write"), (Path.touch, None)])
def test_named_pipe_that_a_process_has_open_both_ways(live: FakeTarget, fake: FakeProc, tmp_path: Path,
                                                      make: Callable[[Path], None], why: str | None) -> None:
    make(tmp_path / "named")
    fake.open(5, str(tmp_path / "named"), os.O_RDWR, inode=5)
    found = on(live, READ, 5).why
    assert (said(found) if found is not None else None) == why


@pytest.mark.parametrize(("more", "other_end"), [(False, '; the other end is fd 5 of process 88 "sh"; '
                                                              "besides what wakes it, it watches pipes and pairs of "
                                                              "sockets only"), (True, "")])
def test_event_loop_that_watches_two_pipes_of_one_process(live: FakeTarget, fake: FakeProc, more: bool,
                                                          other_end: str) -> None:
    fake.process(88, "sh")
    fake.open(9, "anon_inode:[eventpoll]", os.O_RDWR, inode=1041, more="".join(
        f"tfd:        {fd} events:       19 data:                {fd}  pos:0 ino:{fd:x} sdev:c\n" for fd in (5, 6)))
    for fd in (5, 6):
        fake.open(fd, f"pipe:[{fd}]")
        fake.open(fd, f"pipe:[{fd}]", os.O_WRONLY, pid=88)
    if more:
        fake.process(89, "sh")
        fake.open(7, "pipe:[6]", os.O_WRONLY, pid=89)
    assert said(on(live, EPOLL_WAIT, 9).why) == f"it watches fd 5, pipe:[5] and fd 6, pipe:[6]{other_end}"


@pytest.mark.parametrize(("link", "mount"), [("/dev/pts/0", 22), ("/pts/0", 21), ("/0", 5), ("/tmp/file", 22)])
def test_what_has_no_other_end(live: FakeTarget, fake: FakeProc, link: str, mount: int) -> None:
    """A terminal, a file of the kernel's, one of a mount that is not the process's, and one that nobody else has."""
    fake.open(5, link, os.O_RDWR, mount=mount)
    if link != "/tmp/file":
        fake.process(88, "sh")
        fake.open(1, link, os.O_RDWR, mount=mount, pid=88)
    assert on(live, READ, 5).why is None


def test_tcp(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "socket:[7]", os.O_RDWR)
    fake.process(88, "server")
    fake.open(9, "socket:[8]", os.O_RDWR, pid=88)
    fake.internet("tcp", "0100007F:1388", "0100007F:A86A", 7)
    fake.internet("tcp", "0100007F:A86A", "0100007F:1388", 8)
    lock = on(live, READ, 5)
    assert lock.name == "fd 5, socket 127.0.0.1:5000 -> 127.0.0.1:43114 (TCP)"
    assert said(lock.why) == 'the other end is fd 9 of process 88 "server"'


def test_other_sockets(live: FakeTarget, fake: FakeProc) -> None:
    for fd, inode in ((4, 6), (5, 7), (6, 8), (7, 9)):
        fake.open(fd, f"socket:[{inode}]", os.O_RDWR)
    fake.local(6)
    fake.local(7, "/run/server")
    fake.local(8, "/run/server", listening=True)
    fake.peers = {6: 7, 7: 6}
    for fd in (4, 5, 6, 7):
        live.blocked(live.thread(), READ, fd)
    _, locks = look(live)
    assert {lock.name: said(lock.why) for lock in locks.values()} == {
        "fd 4, socket:[6] (unix)": "only this process has the other end: fd 5",
        "fd 5, socket /run/server (unix)": "only this process has the other end: fd 4",
        "fd 6, socket /run/server (unix, listening)": None,
        "fd 7, socket:[9]": None,
    }


@pytest.mark.parametrize(("link", "name"), [
    ("anon_inode:[eventfd]", "eventfd"), ("anon_inode:seccomp notify", "seccomp notify"), ("/dev/pts/0", "/dev/pts/0")])
def test_other_files(live: FakeTarget, fake: FakeProc, link: str, name: str) -> None:
    fake.open(5, link, os.O_RDWR)
    lock = on(live, READ, 5)
    assert (lock.name, lock.why) == (f"fd 5, {name}", None)


def test_other_ends_are_searched_until_the_time_is_up(live: FakeTarget, fake: FakeProc,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "SECONDS", 0)
    for fd in (5, 6):
        fake.open(fd, f"pipe:[{fd}]")
        live.blocked(live.thread(), READ, fd)
    _, locks = look(live)
    assert [said(lock.why) for lock in locks.values()] == [
        "no process has the other end open", "its other end was not searched for: there are too many descriptors"]
