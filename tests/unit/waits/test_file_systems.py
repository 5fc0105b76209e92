"""Waits for file systems, from a fake /proc."""

from __future__ import annotations

import pytest

from gdbext.inferior.proc.descriptors import Descriptor
from gdbext.locks.seen import SeenWait
from gdbext.model.reasons import because
from gdbext.waits.file_systems import file_system_wait
from tests.support.blocked_threads import one, put
from tests.support.fake_proc import FakeProc
from tests.support.fake_target import FakeTarget
from tests.support.reasons import said

STAT, MKDIR, NEWFSTATAT, GETDENTS64 = 4, 83, 262, 217
HERE = -100 & 0xFFFFFFFF
MOUNTS = ("22 1 254:16 / / rw - ext4 /dev/vda rw\n"
          "23 22 0:50 / /mnt/data rw - nfs4 files.example.org:/data rw\n")


def words(target: FakeTarget, call: int, *arguments: int) -> str:
    """What the only thread of a target waits for."""
    thread, lock = one(target, call, *arguments)
    assert lock is None
    assert [ender.what for ender in thread.ended_by] == ["outside"]
    return said(thread.blocked_on) or ""


@pytest.fixture
def mounted(live: FakeTarget, fake: FakeProc) -> FakeTarget:
    fake.write(f"{fake.pid}/mountinfo", MOUNTS)
    fake.open(5, "/mnt/data/sub")
    return live


ON_DISK, ON_SERVER = "(ext4, /dev/vda, mounted on /)", "(nfs4, files.example.org:/data, mounted on /mnt/data)"


def test_path(mounted: FakeTarget) -> None:
    at = put(mounted, b"/mnt/data/a\0")
    assert words(mounted, STAT, at) == f"waits in stat for the file system of /mnt/data/a {ON_SERVER}"


@pytest.mark.parametrize(("folder", "path", "what", "place"), [
    (HERE, b"/mnt/data/a", "/mnt/data/a", ON_SERVER),
    (5, b"../a", "../a", ON_SERVER),
    (5, b"../../a", "../../a", ON_DISK),
    # no path: the descriptor itself
    (5, b"", "/mnt/data/sub", ON_SERVER),
])
def test_path_in_a_folder(folder: int, path: bytes, what: str, place: str, mounted: FakeTarget) -> None:
    at = put(mounted, path + b"\0")
    assert words(mounted, NEWFSTATAT, folder, at) == f"waits in newfstatat for the file system of {what} {place}"


def test_folder(mounted: FakeTarget) -> None:
    assert words(mounted, GETDENTS64, 5) == f"waits in getdents64 for the file system of /mnt/data/sub {ON_SERVER}"


def test_path_in_a_core() -> None:
    core = FakeTarget("core")
    assert words(core, MKDIR, put(core, b"/mnt/a\0")) == "waits in mkdir for the file system of /mnt/a"


OWN = ("22 1 254:16 / / rw - ext4 /dev/vda rw\n"
       "24 22 0:60 / /mnt/own rw - fuse.files files rw,user_id=0\n"
       "25 22 0:61 / /sys/fs/fuse/connections rw - fusectl fusectl rw\n")


def waits(target: FakeTarget, path: bytes = b"/mnt/own/a\0") -> SeenWait:
    """A thread in ``stat`` of a path."""
    made = file_system_wait(target, "stat", (put(target, path), 0, 0, 0, 0, 0))
    assert made is not None
    return made


def test_file_system_that_the_process_serves_itself(live: FakeTarget, fake: FakeProc) -> None:
    fake.write(f"{fake.pid}/mountinfo", OWN)
    fake.open(3, "/dev/fuse")
    wait = waits(live)
    assert wait.text is not None
    assert wait.text.code == "waits-for-file-system"
    assert wait.lock is not None
    assert (wait.lock.address, wait.lock.state) == (3, "waiting for an answer")
    assert wait.lock.why == because("served-here", folder="/mnt/own", fd=3)
    assert waits(live, b"/etc/a\0").lock is None


@pytest.mark.parametrize(("mounts", "descriptors"), [
    (OWN, ()), (OWN, (3, 4)),
    # another file system may be that of the descriptor
    (OWN + "26 22 0:62 / /mnt/other rw - fuse other rw\n", (3,))])
def test_file_system_whose_server_is_not_known(mounts: str, descriptors: tuple[int, ...], live: FakeTarget,
                                               fake: FakeProc) -> None:
    fake.write(f"{fake.pid}/mountinfo", mounts)
    for fd in descriptors:
        fake.open(fd, "/dev/fuse")
    assert waits(live).lock is None


@pytest.mark.parametrize(("file", "known"), [(2, True), (1, False), (None, False)])
def test_other_server_on_the_machine(file: int | None, known: bool, live: FakeTarget, fake: FakeProc) -> None:
    """Its descriptor may be the same open file, as after fork, unless the kernel says that it is not."""
    fake.write(f"{fake.pid}/mountinfo", OWN)
    fake.open(3, "/dev/fuse")
    fake.process(77, "other")
    fake.open(5, "/dev/fuse", pid=77)
    fake.open_files.update({Descriptor(fake.pid, 3): 1, Descriptor(77, 5): file})
    assert (waits(live).lock is not None) is known
