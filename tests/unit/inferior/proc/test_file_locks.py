"""Requests for locks on files, and the locks that are held."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.proc.descriptors import Descriptor
from gdbext.inferior.proc.fdinfo import FileLock
from gdbext.inferior.proc.file_locks import FLOCK, OFD, POSIX, Request, decode_request
from tests.support.fake_proc import DEVICE, FakeProc


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def test_locks(fake: FakeProc) -> None:
    fake.open(3, "/tmp/x", inode=55)
    fake.lock("FLOCK", "WRITE", 88, 55)
    fake.lock("FLOCK", "READ", 100, 55, waits=True)
    fake.lock("POSIX", "READ", 89, 55, "105 110")
    fake.lock("POSIX", "READ", 89, 56)
    proc = fake.proc()
    file = proc.descriptors.file(3)
    assert file == f"{DEVICE}:55"
    assert proc.file_locks.held_on(file) == [FileLock("FLOCK", True, 88, file, 0, None),
                                             FileLock("POSIX", False, 89, file, 105, 110)]


def test_locks_taken_through_a_descriptor(fake: FakeProc) -> None:
    line = fake.lock("OFDLCK", "WRITE", -1, 55)
    fake.open(3, "/tmp/x", inode=55, more=line)
    proc = fake.proc()
    info = proc.descriptors.info(Descriptor(100, 3))
    assert info is not None
    assert info.locks == (FileLock("OFDLCK", True, -1, f"{DEVICE}:55", 0, None),)
    assert info.locks == tuple(proc.file_locks.held_on(f"{DEVICE}:55"))


def data(kind: int, start: int, length: int, whence: int = 0) -> bytes:
    return struct.pack("<hhxxxxqq", kind, whence, start, length)


@pytest.mark.parametrize(("call", "arguments", "found"), [
    ("flock", [5, 2], Request(5, FLOCK, True)), ("flock", [5, 1], Request(5, FLOCK, False)),
    ("flock", [0xFFFFFFFF, 2], None), ("fcntl", [5, 6], None), ("lseek", [5, 7], None)])
def test_request_without_a_structure(call: str, arguments: list[int], found: Request | None) -> None:
    assert decode_request(call, [*arguments, 0], lambda at, size: None) == found


@pytest.mark.parametrize(("structure", "found"), [
    (data(1, 100, 10), Request(5, POSIX, True, 100, 109)), (data(0, 100, -10), Request(5, POSIX, False, 90, 99)),
    (data(1, 7, 0), Request(5, POSIX, True, 7)), (data(1, 7, 1, 2), Request(5, POSIX, True, exact=False)),
    (data(2, 7, 1), Request(5, POSIX, True, exact=False)), (None, Request(5, POSIX, True, exact=False))])
def test_request_with_a_structure(structure: bytes | None, found: Request) -> None:
    assert decode_request("fcntl", [5, 7, 0x1000], lambda at, size: structure) == found


def test_request_with_an_unreadable_structure_has_no_known_range() -> None:
    def read(at: int, size: int) -> bytes:
        raise MemoryUnreadable(at, size)

    assert decode_request("fcntl", [5, 38, 0x1000], read) == Request(5, OFD, True, exact=False)


@pytest.mark.parametrize(("kind", "lock", "pid", "conflicts"), [
    (FLOCK, FLOCK, 1, True), (FLOCK, POSIX, 1, False), (FLOCK, OFD, -1, False), (POSIX, FLOCK, 1, False),
    (POSIX, POSIX, 1, True), (POSIX, POSIX, 100, False), (POSIX, OFD, -1, True), (OFD, POSIX, 100, True),
    (OFD, OFD, -1, True), (POSIX, "LEASE", 1, False)])
def test_conflicts(kind: str, lock: str, pid: int, conflicts: bool) -> None:
    assert Request(5, kind, False).conflicts(FileLock(lock, True, pid, "fe:00:5", 0, None), 100) == conflicts


def test_readers_do_not_conflict() -> None:
    assert not Request(5, POSIX, False).conflicts(FileLock(POSIX, False, 1, "fe:00:5", 0, None), 100)
    assert Request(5, POSIX, True).conflicts(FileLock(POSIX, False, 1, "fe:00:5", 0, None), 100)
