"""Waits for databases of SQLite, from a fake connection on a fake stack."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from gdbext.inferior.protocol import Module, Section
from gdbext.model import Report
from gdbext.verdict.judge import judge
from tests.support.blocked_threads import put
from tests.support.fake_proc import FakeProc
from tests.support.fake_target import LIBC_TEXT, FakeTarget
from tests.support.reasons import said
from tests.support.snapshots import report_of, thread_of

SQLITE = 0x7C00_0001_0000
NANOSLEEP = 35
MILLISECOND = 1_000_000
PENDING = 0x40000000


def report(tries: int = 20, sleep: int = 100, *, handler: int = SQLITE + 0x80, name: bytes = b"main",
           fake: FakeProc | None = None, timeout: bytes = b"") -> tuple[Report, str | None]:
    """The only thread sleeps for so many milliseconds in SQLite, after so many tries; what it does.

    :param timeout: the word of the connection with the busy timeout.
    """
    target = FakeTarget()
    target.loaded.append(Module("/usr/lib/libsqlite3.so.0.8.6", (Section(".text", SQLITE, SQLITE + 0x1000),)))
    if fake is not None:
        target.proc = fake.proc()
    connection = target.build.alloc(0x800)
    target.ram.write(connection + 0x1A0, struct.pack("<QQi4xQ", handler, connection, tries, put(target, name + b"\0")))
    target.ram.write(connection + 0x1A8 + 11 * 8, timeout)
    thread = target.blocked(target.thread(), NANOSLEEP, put(target, struct.pack("<qq", 0, sleep * MILLISECOND)))
    target.ram.u64(thread.stack + 0x88, connection)
    thread.frames = [(LIBC_TEXT + 0x100, thread.stack), (SQLITE + 0x40, thread.stack + 0x40), *thread.frames[1:]]
    made = report_of(target)
    return made, said(thread_of(made, thread).blocked_on)


def test_thread_that_has_tried_for_a_while() -> None:
    made, does = report()
    assert does == "has tried for 1 s to lock an SQLite database"
    assert judge(made).kind == "blocked-behind"
    assert report(tries=1011)[1] == "has tried for 100 s to lock an SQLite database"


@pytest.mark.parametrize("how", [
    {"tries": 12}, {"tries": 20, "sleep": 50}, {"tries": 20_000_000}, {"handler": LIBC_TEXT}, {"name": b"other"}])
def test_first_tries_and_what_is_no_connection(how: dict[str, int]) -> None:
    made, does = report(**how)  # type: ignore[arg-type]
    assert "SQLite" not in (does or "")
    assert judge(made).kind == "idle"


def test_process_that_has_the_database_locked(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.open(5, "/srv/app.db", inode=55)
    fake.process(88, "writer")
    fake.lock("POSIX", "WRITE", 88, 55, f"{PENDING} {PENDING + 511}")
    assert report(fake=fake)[1] == (
        'has tried for 1 s to lock the SQLite database /srv/app.db, which process 88 "writer" has locked')


def test_lock_of_the_log(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.open(5, "/srv/app.db-shm", inode=56)
    fake.lock("POSIX", "WRITE", fake.pid, 56, "120 120")
    assert report(fake=fake)[1] == (
        "has tried for 1 s to lock the SQLite database /srv/app.db, which this process has locked")


def test_other_locks(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.open(5, "/srv/app.db", inode=55)
    fake.lock("POSIX", "READ", 88, 55, f"{PENDING} {PENDING + 511}")
    fake.lock("POSIX", "WRITE", 88, 55, "0 0")
    fake.lock("FLOCK", "WRITE", 88, 55)
    assert report(fake=fake)[1] == "has tried for 1 s to lock an SQLite database"


def locked_here(tmp_path: Path) -> FakeProc:
    fake = FakeProc(tmp_path)
    fake.open(5, "/srv/app.db", inode=55)
    fake.lock("POSIX", "WRITE", fake.pid, 55, f"{PENDING} {PENDING + 511}")
    fake.write(f"{fake.pid}/maps", "")
    return fake


@pytest.mark.parametrize("timeout", [struct.pack("<ii", 0, 10**9), struct.pack("<ii", 10**9, 0)])
def test_database_of_this_process_without_an_end(tmp_path: Path, timeout: bytes) -> None:
    """The timeout is the second integer of a word, before SQLite 3.32 the first."""
    made, _ = report(fake=locked_here(tmp_path), timeout=timeout)
    lock, = made.locks
    assert (lock.kind, lock.name, lock.shared, said(lock.why)) == (
        "sqlite-database", "/srv/app.db", False, "the thread has tried for 1 s")
    assert judge(made).kind in ("standstill", "blocked-behind")


@pytest.mark.parametrize("timeout", [
    struct.pack("<ii", 0, 5000), struct.pack("<ii", 3, 10**9), struct.pack("<ii", 0, 0), struct.pack("<ii", 0, -1)])
def test_busy_timeout_that_ends_or_is_not_known(tmp_path: Path, timeout: bytes) -> None:
    made, does = report(fake=locked_here(tmp_path), timeout=timeout)
    assert does == "has tried for 1 s to lock the SQLite database /srv/app.db, which this process has locked"
    assert not made.locks


def test_database_of_another_process_without_an_end(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.open(5, "/srv/app.db", inode=55)
    fake.process(88, "writer")
    fake.lock("POSIX", "WRITE", 88, 55, f"{PENDING} {PENDING + 511}")
    made, does = report(fake=fake, timeout=struct.pack("<ii", 0, 10**9))
    assert (made.locks, "process 88" in (does or "")) == ((), True)
