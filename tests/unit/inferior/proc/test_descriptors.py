"""Descriptors, from a fake directory tree and from this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext.arch import system_call_number
from gdbext.inferior.proc.descriptors import Descriptor, OpenFiles
from gdbext.inferior.proc.fdinfo import DescriptorInfo
from gdbext.inferior.proc.process import Proc
from tests.support.fake_proc import DEVICE, MOUNT, FakeProc


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def test_link(fake: FakeProc) -> None:
    fake.open(3, "pipe:[7]")
    proc = fake.proc()
    assert proc.descriptors.link(3) == "pipe:[7]"
    assert proc.descriptors.link(4) is None


def test_text_is_bounded_and_can_be_encoded(fake: FakeProc) -> None:
    os.symlink(b"/tmp/\xff" + b"x" * 3000, os.fsencode(fake.root) + b"/100/fd/3")
    link = fake.proc().descriptors.link(3)
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
    assert fake.proc().descriptors.info(Descriptor(100, 3)) == DescriptorInfo(
        reads, writes, MOUNT, 7, nonblocking=bool(flags & os.O_NONBLOCK))


def test_info_of_old_kernels_has_no_inode(fake: FakeProc) -> None:
    fake.open(3, "/tmp/x")
    fake.write("100/fdinfo/3", "pos:\t0\nflags:\t02\nmnt_id:\t22\n")
    proc = fake.proc()
    assert proc.descriptors.info(Descriptor(100, 3)) == DescriptorInfo(True, True, 22, None)
    assert proc.descriptors.file(3) is None


def test_info_of_epoll_and_pidfd(fake: FakeProc) -> None:
    fake.open(3, "anon_inode:[eventpoll]", os.O_RDWR, more=(
        "tfd:       14 events:       19 data:                0  pos:0 ino:148dd sdev:9\n"
        "tfd:        4 events: 80000019 data: ffffffffffffffff\n"))
    fake.open(4, "anon_inode:[pidfd]", os.O_RDWR, more="Pid:\t88\nNSpid:\t88\n")
    proc = fake.proc()
    epoll, pidfd = proc.descriptors.info(Descriptor(100, 3)), proc.descriptors.info(Descriptor(100, 4))
    assert epoll is not None
    assert epoll.watched == ((14, 0x148DD), (4, None))
    assert pidfd is not None
    assert pidfd.process == 88


@pytest.mark.parametrize("text", ["", "nonsense", "flags:\t09\nmnt_id:\t1\n", "flags:\t02\n", "pos:\t0\nflags:\t\n"])
def test_info_when_malformed_is_none(fake: FakeProc, text: str) -> None:
    fake.open(3, "pipe:[7]")
    fake.write("100/fdinfo/3", text)
    assert fake.proc().descriptors.info(Descriptor(100, 3)) is None


def test_having_returns_all_descriptors_of_a_pipe(fake: FakeProc) -> None:
    fake.process(88, "sh")
    fake.open(3, "pipe:[7]")
    fake.open(4, "pipe:[8]")
    fake.open(1, "pipe:[7]", os.O_WRONLY, pid=88)
    proc = fake.proc()
    assert set(proc.descriptors.having("pipe:[7]")) == {Descriptor(100, 3), Descriptor(88, 1)}
    assert proc.descriptors.having("pipe:[9]") == ()
    assert proc.descriptors.complete


def test_having_when_file_cannot_be_shared_is_empty(fake: FakeProc) -> None:
    for fd, link in enumerate(["/dev/null", "/dev/tty1", "anon_inode:[eventfd]"]):
        fake.open(fd, link)
        assert fake.proc().descriptors.having(link) == ()
    fake.open(9, "/dev/shm/fifo")
    assert fake.proc().descriptors.having("/dev/shm/fifo") == [Descriptor(100, 9)]


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
    assert proc.descriptors.having("pipe:[7]") == [Descriptor(100, 3)]
    assert not proc.descriptors.complete


def test_having_when_time_runs_out_is_incomplete(fake: FakeProc) -> None:
    fake.process(88, "sh")
    for pid in (100, 88):
        fake.open(3, "pipe:[7]", pid=pid)
    proc = fake.proc(seconds=-1)
    assert proc.descriptors.having("pipe:[7]") == [Descriptor(100, 3)]
    assert not proc.descriptors.complete


def test_processes_that_end_during_the_search_are_skipped(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.open(3, "pipe:[7]")
    (fake.root / "88").mkdir()  # its directory is listed, but now empty
    proc = fake.proc()
    assert proc.descriptors.having("pipe:[7]") == [Descriptor(100, 3)]
    assert proc.descriptors.complete
    assert proc.children() == []
    assert proc.name(88) is None


def test_mounts(fake: FakeProc) -> None:
    proc = fake.proc()
    assert proc.descriptors.stores_files(MOUNT)
    assert not proc.descriptors.stores_files(21), "it is a proc"
    assert not proc.descriptors.stores_files(5), "it is not known"
    fake.open(3, "/tmp/x", mount=5)
    assert fake.proc().descriptors.file(3) is None


def test_mount_outside_of_the_root_directory_is_found_in_the_table_of_the_first_process(fake: FakeProc) -> None:
    fake.process(1, "init", 0)
    fake.write("1/mountinfo", "5 1 254:1 / / rw - ext4 /dev/vdb rw\n")
    fake.open(3, "/tmp/x", mount=5)
    proc = fake.proc()
    assert proc.descriptors.stores_files(5)
    assert proc.descriptors.file(3) == "fe:01:7"


@pytest.mark.parametrize(("mount", "inode", "file"), [(5, 55, f"{DEVICE}:55"), (6, 55, None), (5, 56, None)])
def test_device_of_a_mount_that_is_not_listed_is_that_of_a_lock_on_the_same_file(
        fake: FakeProc, mount: int, inode: int, file: str | None) -> None:
    fake.open(3, "/tmp/x", mount=5, inode=55)
    fake.process(88, "web")
    fake.open(4, "/tmp/x", pid=88, mount=mount, inode=inode, more=fake.lock("FLOCK", "WRITE", 88, inode))
    assert fake.proc().descriptors.file(3) == file


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
    assert proc.descriptors.link(reader) == link
    both_ends = {Descriptor(os.getpid(), fd) for fd in pipe}
    assert both_ends <= set(proc.descriptors.having(link))
    for fd in pipe:
        info = proc.descriptors.info(Descriptor(os.getpid(), fd))
        assert info is not None
        assert (info.reads, info.writes) == (fd == reader, fd == writer)
        assert info.inode in (None, inode)
    assert proc.name(os.getpid()) == Path("/proc/self/comm").read_text().strip()


@pytest.fixture
def files() -> OpenFiles:
    return OpenFiles(system_call_number)


def test_descriptors_of_one_open_file(files: OpenFiles, tmp_path: Path) -> None:
    """A child of fork has the open files of its parent; to open a file once more makes another one."""
    first, second = (os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT) for _ in range(2))
    copy = os.dup(first)
    ending, other_end = os.pipe()
    child = os.fork()
    if not child:
        os.close(other_end)
        os.read(ending, 1)  # until the parent closes its end
        os._exit(0)
    try:
        own = [Descriptor(os.getpid(), number) for number in (first, copy, second)]
        if files.is_same(own[0], own[0]) is None:
            pytest.skip("kcmp is not permitted here")
        assert [files.is_same(own[0], each) for each in own] == [True, True, False]
        assert [files.is_same(own[0], Descriptor(child, number)) for number in (first, second)] == [True, False]
    finally:
        for number in (first, second, copy, ending, other_end):
            os.close(number)
        os.waitpid(child, 0)


def test_what_is_not_open_is_not_known(files: OpenFiles) -> None:
    assert files.is_same(Descriptor(os.getpid(), 0), Descriptor(os.getpid(), 1 << 20)) is None


def test_without_the_system_call_nothing_is_known() -> None:
    assert OpenFiles().is_same(Descriptor(1, 0), Descriptor(1, 0)) is None


def test_system_call_that_does_not_exist_has_no_number() -> None:
    assert system_call_number("no_such_call") is None


def test_a_descriptor_is_ready_once_there_is_data() -> None:
    proc = Proc(os.getpid(), open_files=OpenFiles(system_call_number))
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try:
        if proc.is_ready(reader, False) is None:
            pytest.skip("the kernel gives no copies of descriptors here (pidfd_getfd)")
        before = os.listdir("/proc/self/fd")
        assert (proc.is_ready(reader, False), proc.is_ready(writer, True)) == (False, True)
        size = os.write(writer, bytes(1 << 20))  # as much as there is room for
        assert (proc.is_ready(reader, False), proc.is_ready(writer, True)) == (True, False)
        assert os.listdir("/proc/self/fd") == before
        assert len(os.read(reader, 1 << 20)) == size, "nothing was taken"
    finally:
        os.close(reader)
        os.close(writer)


def test_whether_another_file_is_ready_is_not_known(fake: FakeProc) -> None:
    proc = Proc(os.getpid(), open_files=OpenFiles(system_call_number))
    with open(__file__, encoding="utf-8") as file:
        assert proc.is_ready(file.fileno(), False) is None
    assert proc.is_ready(999_999, False) is None
    fake.open(3, "pipe:[7]")
    assert fake.proc().is_ready(3, False) is None, "the number of the system call is not known"
