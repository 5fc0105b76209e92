"""Descriptors, the processes at their other ends, and the processes that have locked their files, from a fake /proc."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from gdbext.waits import descriptors
from tests.support.blocked_threads import look, on, put
from tests.support.fake_proc import FakeProc
from tests.support.fake_target import READ, FakeTarget
from tests.support.reasons import said

FCNTL, FLOCK, WRITE = 72, 73, 1
LOCK_SH, LOCK_EX = 1, 2
SETLKW, OFD_SETLKW = 7, 38
RDLCK, WRLCK = 0, 1


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


@pytest.fixture
def live(fake: FakeProc) -> FakeTarget:
    target = FakeTarget()
    target.proc = fake.proc()
    return target


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


def flock(kind: int, start: int, length: int, whence: int = 0) -> bytes:
    return struct.pack("<hhxxxxqqixxxx", kind, whence, start, length, 0)


def locked(fake: FakeProc) -> None:
    """A file that this process has open as fd 5, and process 88 as fd 3."""
    fake.open(5, "/tmp/x", os.O_RDWR, inode=55)
    fake.process(88, "sh")


@pytest.mark.parametrize(("mode", "operation", "why"), [
    ("WRITE", LOCK_EX, 'locked by process 88 "sh"'), ("WRITE", LOCK_SH, 'locked by process 88 "sh"'),
    ("READ", LOCK_EX, 'locked by process 88 "sh"'),
    ("READ", LOCK_SH, "the process that locked it is not recorded")])
def test_flock(live: FakeTarget, fake: FakeProc, mode: str, operation: int, why: str) -> None:
    locked(fake)
    fake.lock("FLOCK", mode, 88, 55)
    fake.lock("FLOCK", mode, 89, 56)
    fake.lock("POSIX", mode, 90, 55)
    fake.lock("FLOCK", mode, 91, 55, waits=True)
    lock = on(live, FLOCK, 5, operation)
    assert (lock.name, lock.state, said(lock.why)) == ("fd 5, /tmp/x", "waiting for a file lock", why)


def test_flock_held_by_this_process(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    fake.lock("FLOCK", "WRITE", 100, 55)
    assert said(on(live, FLOCK, 5, LOCK_EX).why) == "locked by this process"


def test_flock_held_by_a_process_that_is_gone(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    fake.lock("FLOCK", "WRITE", 77, 55)
    assert said(on(live, FLOCK, 5, LOCK_EX).why) == "locked by process 77"


@pytest.mark.parametrize(("wanted", "span", "mode", "conflict"), [
    (flock(WRLCK, 100, 10), "105 105", "WRITE", True), (flock(WRLCK, 100, 10), "110 120", "WRITE", False),
    (flock(WRLCK, 100, 0), "500 EOF", "READ", True), (flock(RDLCK, 100, 0), "500 EOF", "READ", False),
    (flock(WRLCK, 100, -10), "90 90", "WRITE", True), (flock(WRLCK, 100, -10), "100 100", "WRITE", False),
    (flock(WRLCK, 0, 1, whence=1), "500 501", "WRITE", True)])
def test_fcntl(live: FakeTarget, fake: FakeProc, wanted: bytes, span: str, mode: str, conflict: bool) -> None:
    locked(fake)
    fake.lock("POSIX", mode, 88, 55, span)
    fake.lock("POSIX", mode, 100, 55, span)  # never in the way of the process itself
    fake.lock("FLOCK", mode, 89, 55)
    why = 'locked by process 88 "sh"' if conflict else "the process that locked it is not recorded"
    assert said(on(live, FCNTL, 5, SETLKW, put(live, wanted)).why) == why


def test_lock_of_an_open_file(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    line = fake.lock("OFDLCK", "WRITE", -1, 55)
    fake.open(3, "/tmp/x", os.O_RDWR, pid=88, inode=55, more=line)
    fake.open(4, "/tmp/x", os.O_RDWR, pid=88, inode=55)
    fake.lock("POSIX", "READ", 100, 55)
    why = said(on(live, FCNTL, 5, OFD_SETLKW, put(live, flock(WRLCK, 0, 0))).why)
    assert why == 'locked by this process and fd 3 of process 88 "sh"'


def test_lock_of_an_open_file_that_has_a_lesser_one_itself(live: FakeTarget, fake: FakeProc) -> None:
    own = fake.lock("OFDLCK", "READ", -1, 55)
    other = fake.lock("OFDLCK", "READ", -1, 55, "10 20")
    fake.open(5, "/tmp/x", os.O_RDWR, inode=55, more=own)
    fake.process(88, "sh")
    fake.open(3, "/tmp/x", os.O_RDWR, pid=88, inode=55, more=other)
    why = said(on(live, FCNTL, 5, OFD_SETLKW, put(live, flock(WRLCK, 0, 0))).why)
    assert why == 'locked by fd 3 of process 88 "sh"'


def test_file_that_the_kernel_does_not_name(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    fake.write("100/fdinfo/5", "pos:\t0\nflags:\t02\nmnt_id:\t22\n")
    assert said(on(live, FLOCK, 5, LOCK_EX).why) == "the process that locked it is not known"


def test_other_ends_are_searched_until_the_time_is_up(live: FakeTarget, fake: FakeProc,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "SECONDS", 0)
    for fd in (5, 6):
        fake.open(fd, f"pipe:[{fd}]")
        live.blocked(live.thread(), READ, fd)
    _, locks = look(live)
    assert [said(lock.why) for lock in locks.values()] == [
        "no process has the other end open", "its other end was not searched for: there are too many descriptors"]
