from __future__ import annotations

import os
import resource
import stat
import threading
from pathlib import Path

import pytest

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


def test_own_links_are_followed_and_others_replaced(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a link of another user is made by root")
    victim, link = tmp_path / "victim", tmp_path / "page.html"
    victim.write_text("old")
    link.symlink_to(victim)
    write_private(str(link), Safe("new"))
    assert (link.is_symlink(), victim.read_text()) == (True, "new")
    victim.write_text("old")
    os.lchown(link, 65534, 65534)
    write_private(str(link), Safe("newer"))
    assert (link.is_symlink(), victim.read_text(), link.read_text()) == (False, "old", "newer")


def test_pipes_and_devices_are_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    write_private(str(path), Safe("page"))
    reader.join(10)
    assert read == ["page"]
    with pytest.raises(OSError, match="No space left"):
        write_private("/dev/full", Safe("page"))


@pytest.mark.parametrize("name", ["no/such/folder", "folder", "x" * 300])
def test_unwritable_file_raises(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):  # noqa: PT011  the error depends on the name
        write_private(str(tmp_path / name), Safe("page"))
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_private(str(path), Safe("x" * 100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
