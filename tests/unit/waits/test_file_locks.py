"""Waits for locks on files, and the descriptors that hold these locks, from a fake /proc."""

from __future__ import annotations

import os
import struct

import pytest

from gdbext.inferior.proc.descriptors import Descriptor
from gdbext.model import DERIVED, EXCLUSIVE, SHARED, Deadlock, Lock
from gdbext.snapshot import take_snapshot
from tests.support.blocked_threads import one, put, rendered
from tests.support.fake_proc import FakeProc
from tests.support.fake_target import READ, FakeTarget
from tests.support.reasons import said

FCNTL, FLOCK = 72, 73
LOCK_SH, LOCK_EX = 1, 2
SETLKW, OFD_SETLKW = 7, 38
RDLCK, WRLCK = 0, 1
SIGALRM = 1 << 13


def on(target: FakeTarget, call: int, *arguments: int) -> Lock:
    """The lock that the only thread of a target waits for."""
    thread, lock = one(target, call, *arguments)
    assert lock is not None
    assert lock.kind == "file-lock"
    assert said(thread.blocked_on) == ("fd 5" if target.proc is None else "fd 5, /tmp/x")
    return lock


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
    assert (lock.name, lock.state, said(lock.why)) == ("/tmp/x", "locked" if "88" in why else "waited for", why)


def test_flock_held_by_this_process(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    fake.lock("FLOCK", "WRITE", 100, 55)
    lock = on(live, FLOCK, 5, LOCK_EX)
    assert said(lock.why) == "locked by this process", "no descriptor shows it: a child may have it instead"
    assert (lock.shared, lock.holders) == (True, ())


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
    assert why == 'locked by fd 3 of process 88 "sh" and this process'


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


@pytest.mark.parametrize(("call", "argument", "address"), [(FLOCK, LOCK_EX, 5), (FCNTL, SETLKW, None)])
def test_core_does_not_show_who_holds_it(call: int, argument: int, address: int | None) -> None:
    core = FakeTarget(kind="core")
    at = put(core, flock(WRLCK, 100, 10))
    lock = on(core, call, 5, argument, at)
    assert (lock.address, lock.state, lock.shared, lock.holders) == (address or at, "waited for", True, ())
    assert lock.name == ("fd 5" if call == FLOCK else "fd 5, bytes 100 to 109")
    assert said(lock.why) == "a core does not record what it referred to"


@pytest.mark.parametrize(("wanted", "name"), [
    (flock(WRLCK, 0, 0), "/tmp/x"), (flock(WRLCK, 7, 0), "/tmp/x, bytes from 7"),
    (flock(WRLCK, 7, 2), "/tmp/x, bytes 7 to 8"), (flock(WRLCK, 7, 2, whence=2), "/tmp/x, an unknown range")])
def test_range_is_named(live: FakeTarget, fake: FakeProc, wanted: bytes, name: str) -> None:
    locked(fake)
    assert on(live, FCNTL, 5, SETLKW, put(live, wanted)).name == name


def test_holder_is_named_with_its_command_line(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    fake.open(3, "/tmp/x", os.O_RDWR, pid=88, inode=55, more=fake.lock("FLOCK", "WRITE", 88, 55))
    fake.write("88/cmdline", "sh\0-c\0sleep 9\0")
    lock = on(live, FLOCK, 5, LOCK_SH)
    assert said(lock.why) == 'locked by fd 3 of process 88 "sh" (sh -c sleep 9)'
    assert (lock.shared, lock.is_outside, lock.holders, lock.waiters[0].mode) == (True, True, (), SHARED)


# -- a thread that waits for its own process ------------------------------------------------------------------


def held_here(fake: FakeProc, kind: str = "FLOCK", *, caught: int = 0) -> None:
    """Descriptor 4 has a lock on the file that descriptor 5 is open for too, and no process shares it."""
    fake.process(1, "init", 0)
    fake.open(5, "/tmp/x", os.O_RDWR, inode=55)
    pid = -1 if kind == "OFDLCK" else 100
    fake.open(4, "/tmp/x", os.O_RDWR, inode=55, more=fake.lock(kind, "WRITE", pid, 55))
    with open(fake.root / "100/status", "a") as status:
        status.write(f"SigCgt:\t{caught:016x}\n")


def deadlocks(target: FakeTarget, call: int, *arguments: int, threads: int = 1) -> tuple[Deadlock, ...]:
    for _ in range(threads):
        target.blocked(target.thread(), call, *arguments)
    return take_snapshot(target).report(lambda thread: False).deadlocks


@pytest.mark.parametrize(("kind", "call", "command"), [
    ("FLOCK", FLOCK, None), ("OFDLCK", FCNTL, OFD_SETLKW), ("OFDLCK", FCNTL, SETLKW), ("POSIX", FCNTL, OFD_SETLKW)])
def test_only_thread_waits_for_itself(live: FakeTarget, fake: FakeProc, kind: str, call: int,
                                      command: int | None) -> None:
    held_here(fake, kind)
    arguments = (LOCK_EX,) if command is None else (command, put(live, flock(WRLCK, 0, 0)))
    (found,) = deadlocks(live, call, 5, *arguments)
    assert (found.threads, found.evidence, found.standstill) == ((1,), DERIVED, False)
    assert said(found.why) == "only this process has the open file that holds the lock: fd 4"
    assert "waits for file lock /tmp/x, held by thread 1" in rendered(live)


@pytest.mark.parametrize(("file", "is_alone"), [(1, False), (None, False), (2, True)])
def test_another_process_with_the_open_file_may_release_the_lock(live: FakeTarget, fake: FakeProc, file: int | None,
                                                                 is_alone: bool) -> None:
    """It has just released it, so its fdinfo does not show the lock that the one of this process showed before."""
    held_here(fake)
    fake.process(88, "sh")
    fake.open(3, "/tmp/x", os.O_RDWR, pid=88, inode=55)
    fake.open_files.update({Descriptor(100, 4): 1, Descriptor(88, 3): file})
    found = deadlocks(live, FLOCK, 5, LOCK_EX)
    assert [deadlock.threads for deadlock in found] == [(1,)] * is_alone


def test_own_posix_lock_does_not_conflict(live: FakeTarget, fake: FakeProc) -> None:
    held_here(fake, "POSIX")
    assert deadlocks(live, FCNTL, 5, SETLKW, put(live, flock(WRLCK, 0, 0))) == ()


@pytest.mark.parametrize("wanted", [flock(WRLCK, 0, 0, whence=1), b""])
def test_unknown_range_proves_nothing(live: FakeTarget, fake: FakeProc, wanted: bytes) -> None:
    held_here(fake, "OFDLCK")
    at = put(live, wanted) if wanted else 0xDEAD_0000
    assert deadlocks(live, FCNTL, 5, OFD_SETLKW, at) == ()


def test_handler_of_a_signal_may_end_the_wait(live: FakeTarget, fake: FakeProc) -> None:
    held_here(fake, caught=SIGALRM)
    assert deadlocks(live, FLOCK, 5, LOCK_EX) == ()


def test_handlers_that_are_not_known_may_end_the_wait(live: FakeTarget, fake: FakeProc) -> None:
    held_here(fake)
    fake.write("100/status", "Name:\tserver\n")
    assert deadlocks(live, FLOCK, 5, LOCK_EX) == ()


def test_child_that_shares_the_open_file_may_release_it(live: FakeTarget, fake: FakeProc) -> None:
    held_here(fake)
    fake.process(88, "child", 100)
    fake.open(4, "/tmp/x", os.O_RDWR, pid=88, inode=55, more="lock:\t1: FLOCK  ADVISORY  WRITE 100 fe:00:55 0 EOF\n")
    assert deadlocks(live, FLOCK, 5, LOCK_EX) == ()


def test_process_that_is_hidden_may_release_it(live: FakeTarget, fake: FakeProc) -> None:
    held_here(fake)
    (fake.root / "1" / "stat").unlink()
    assert deadlocks(live, FLOCK, 5, LOCK_EX) == ()


def test_process_whose_descriptors_cannot_be_read_may_release_it(live: FakeTarget, fake: FakeProc,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    held_here(fake)
    fake.process(88, "secret")
    listdir = os.listdir

    def refuse(path: str) -> list[str]:
        if path.endswith("/88/fd"):
            raise PermissionError
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    assert deadlocks(live, FLOCK, 5, LOCK_EX) == ()


def test_another_thread_may_release_it(live: FakeTarget, fake: FakeProc) -> None:
    held_here(fake)
    live.blocked(live.thread(), READ, 9)
    assert deadlocks(live, FLOCK, 5, LOCK_EX) == ()


def test_same_name_but_another_file(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "/tmp/x", os.O_RDWR, inode=55)
    fake.open(4, "/tmp/x", os.O_RDWR, inode=56, more=fake.lock("FLOCK", "WRITE", 100, 56))
    lock = on(live, FLOCK, 5, LOCK_EX)
    assert (lock.state, said(lock.why)) == ("waited for", "the process that locked it is not recorded")


def test_same_file_by_another_name(live: FakeTarget, fake: FakeProc) -> None:
    fake.open(5, "/tmp/x", os.O_RDWR, inode=55)
    fake.open(4, "/mnt/x", os.O_RDWR, inode=55, more=fake.lock("FLOCK", "WRITE", 100, 55))
    fake.process(1, "init", 0)
    fake.write("100/status", "SigCgt:\t0000000000000000\n")
    (found,) = deadlocks(live, FLOCK, 5, LOCK_EX)
    assert found.threads == (1,)


@pytest.mark.parametrize(("shared_by", "deadlocked"), [((4,), True), ((4, 6), False)])
def test_request_to_upgrade_a_lock_that_another_open_file_has_too(
        live: FakeTarget, fake: FakeProc, shared_by: tuple[int, ...], deadlocked: bool) -> None:
    fake.process(1, "init", 0)
    # of three descriptors and two locks, one may be another number of the requesting open file
    line = fake.lock("OFDLCK", "READ", -1, 55)
    fake.lock("OFDLCK", "READ", -1, 55)
    for fd in (5, *shared_by):
        fake.open(fd, "/tmp/x", os.O_RDWR, inode=55, more=line)
    fake.write("100/status", "SigCgt:\t0000000000000000\n")
    assert bool(deadlocks(live, FCNTL, 5, OFD_SETLKW, put(live, flock(WRLCK, 0, 0)))) == deadlocked


def test_modes(live: FakeTarget, fake: FakeProc) -> None:
    locked(fake)
    assert on(live, FLOCK, 5, LOCK_EX).waiters[0].mode == EXCLUSIVE
