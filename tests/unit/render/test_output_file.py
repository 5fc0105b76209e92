from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import resource
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

from gdbext.errors import GdbextError
from gdbext.render import output_file
from gdbext.render.escape import Safe
from gdbext.render.output_file import write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.mark.parametrize("existing", [None, 0o644, 0o666, 0o444])
def test_only_the_owner_may_read_a_report(tmp_path: Path, existing: int | None) -> None:
    path = tmp_path / "page.html"
    if existing is not None:
        path.write_text("old and longer")
        path.chmod(existing)
    write_private(str(path), Safe("größe"))
    assert path.read_text(encoding="utf-8") == "größe"
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def other_user() -> int:
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user")
    return 65534


def test_own_links_are_followed_and_others_replaced(tmp_path: Path, other_user: int) -> None:
    victim, link = tmp_path / "victim", tmp_path / "page.html"
    victim.write_text("old")
    link.symlink_to(victim)
    write_private(str(link), Safe("new"))
    assert (link.is_symlink(), victim.read_text()) == (True, "new")
    victim.write_text("old")
    os.lchown(link, other_user, other_user)
    write_private(str(link), Safe("newer"))
    assert (link.is_symlink(), victim.read_text(), link.read_text()) == (False, "old", "newer")


def test_own_link_to_a_link_of_another_user_is_followed_once(tmp_path: Path, other_user: int) -> None:
    victim, inner, link = tmp_path / "victim", tmp_path / "folder" / "inner", tmp_path / "page.html"
    victim.write_text("old")
    inner.parent.mkdir()
    inner.symlink_to("../victim")
    os.lchown(inner, other_user, other_user)
    link.symlink_to("folder/inner")
    write_private(str(link), Safe("new"))
    assert (link.is_symlink(), inner.is_symlink(), victim.read_text(), inner.read_text()) == (
        True, False, "old", "new")


def test_hard_link_to_a_symbolic_link_is_replaced(tmp_path: Path) -> None:
    """Its maker need not be the owner of the symbolic link."""
    victim, link, page = tmp_path / "victim", tmp_path / "link", tmp_path / "page.html"
    victim.write_text("old")
    link.symlink_to(victim)
    os.link(link, page, follow_symlinks=False)
    write_private(str(page), Safe("new"))
    assert (page.is_symlink(), page.read_text(), victim.read_text()) == (False, "new", "old")


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "page.html").symlink_to("page.html")
    with pytest.raises(GdbextError, match="Too many levels of symbolic links"):
        write_private(str(tmp_path / "page.html"), Safe("page"))


def exchange(folder: Path, victim: Path, user: int, ready: multiprocessing.synchronize.Event) -> None:
    """Swap a pipe and a link to another user's file for as long as the parent process lives."""
    libc, at_cwd, rename_exchange = ctypes.CDLL(None), -100, 2
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    os.chdir(folder)
    os.chown(".", user, user)
    os.setuid(user)
    while True:
        for name in ("page.html", "other"):  # the writer may have replaced one
            if not os.path.lexists(name) or os.path.isfile(name) and not os.path.islink(name):
                os.symlink(victim, "new")
                os.rename("new", name)
        if all(os.path.islink(name) for name in ("page.html", "other")):
            os.mkfifo("new")
            os.open("new", os.O_RDWR)  # a reader
            os.rename("new", "other")
        ready.set()
        for _ in range(100):
            libc.renameat2(at_cwd, b"page.html", at_cwd, b"other", rename_exchange)


def test_pipe_that_becomes_a_link_while_it_is_written_is_not_followed(tmp_path: Path, other_user: int) -> None:
    victim, page = tmp_path / "victim", tmp_path / "folder" / "page.html"
    victim.write_text("old")
    page.parent.mkdir()
    ready = multiprocessing.Event()
    swapper = multiprocessing.Process(target=exchange, args=(page.parent, victim, other_user, ready))
    swapper.start()
    try:
        assert ready.wait(60)
        for _ in range(3000):
            with contextlib.suppress(GdbextError):
                write_private(str(page), Safe("page"))
            assert victim.read_text() == "old"
        assert swapper.is_alive()
    finally:
        swapper.kill()
        swapper.join()


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_pipes_and_devices_are_not_replaced(pipe: Path) -> None:
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_private(str(pipe), Safe("page"))
    assert os.read(reader, 1 << 16) == b"page"
    os.close(reader)
    with pytest.raises(GdbextError, match="^cannot write /dev/full: No space left"):
        write_private("/dev/full", Safe("page"))


def test_pipe_without_a_reader_is_an_error(pipe: Path) -> None:
    with pytest.raises(GdbextError, match=f"^cannot write {pipe}: no process reads this pipe$") as raised:
        write_private(str(pipe), Safe("page"))
    assert raised.value.hint == "start its reader first"


def test_pipe_whose_reader_does_not_read_is_an_error(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_file, "_PATIENCE", 0.2)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    began = time.monotonic()
    with pytest.raises(GdbextError, match=r"its reader has not read for 0\.2 s"):
        write_private(str(pipe), Safe("x" * 1_000_000))
    assert time.monotonic() - began < 5
    os.close(reader)


def test_pipe_of_another_user_gets_nothing(pipe: Path, other_user: int) -> None:
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.chown(pipe, other_user, other_user)
    with pytest.raises(GdbextError, match=f"^cannot write {pipe}: it is a pipe or device of user {other_user}, who"):
        write_private(str(pipe), Safe("page"))
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_socket_is_an_error_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("page.html")
        with pytest.raises(GdbextError, match="it is not a file, a pipe or a character device"):
            write_private("page.html", Safe("page"))
    assert stat.S_ISSOCK(os.lstat("page.html").st_mode)


@pytest.mark.parametrize(("name", "why"), [
    ("no/such/folder", "No such file"), ("folder", "Is a directory"), ("folder/", "Is a directory"), ("", "Is a dir"),
    ("x" * 300, "File name too long"), ("\0", "null")])
def test_unwritable_file_raises(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(GdbextError, match=why):
        write_private(str(tmp_path / name), Safe("page"))
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(GdbextError, match="File too large"):
            write_private(str(path), Safe("x" * 100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
