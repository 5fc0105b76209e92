"""Files that the target names: access rights and limits. Tests of rights need root."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext.render import source, source_access
from gdbext.render.source import SourceFiles
from gdbext.render.source_access import EVERYBODY, SourceAccess, User

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can search, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="gdbext-source-") as path:
        os.chmod(path, 0o755)
        yield Path(path)


def put(path: Path, text: str = "here = 1\n", mode: int = 0o644, owner: int | None = None) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    if owner is not None:
        os.chown(path, owner, owner)
    return str(path)


def read(access: SourceAccess, path: str) -> bytes | None:
    found = access.named(path, 100)
    return found.data if found is not None else None


@as_root
@pytest.mark.parametrize("root", ["", "/"])
def test_unreadable_for_the_user_is_not_read(folder: Path, root: str) -> None:
    secret = put(folder / "secret", "root:x:", 0o600)
    (folder / "s.py").symlink_to(secret)
    (folder / "closed").mkdir(mode=0o700)
    inside = put(folder / "closed" / "job.py")
    group = put(folder / "group.py", mode=0o640)
    os.chown(group, 0, 4321)
    own = put(folder / "own.py", mode=0o600, owner=1234)
    user = SourceAccess(root, User(1234, 1234, (4321,)))
    assert [read(user, path) for path in (str(folder / "s.py"), secret, inside)] == [None] * 3
    assert [read(user, path) for path in (own, group, put(folder / "job.py"))] == [b"here = 1\n"] * 3
    (folder / "link.py").symlink_to("job.py")
    assert read(user, str(folder / "link.py")) == b"here = 1\n"
    assert [read(SourceAccess(root, EVERYBODY), path) for path in (own, group)] == [None, None]
    assert read(SourceAccess(root), secret) == b"root:x:"


@as_root
def test_rights_of_the_debugger_are_unchanged(folder: Path) -> None:
    before = os.getresuid(), os.getresgid(), os.getgroups()
    read(SourceAccess("", EVERYBODY), put(folder / "job.py"))
    assert (os.getresuid(), os.getresgid(), os.getgroups()) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_without_setuid_only_public_files_are_read(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    access = SourceAccess("", User(1234, 1234))
    assert read(access, put(folder / "job.py")) == b"here = 1\n"
    assert read(access, put(folder / "own.py", mode=0o640)) is None
    (folder / "closed").mkdir()
    inside = put(folder / "closed" / "job.py")
    (folder / "closed").chmod(0o750)
    (folder / "s.py").symlink_to(inside)
    assert [read(access, path) for path in (inside, str(folder / "s.py"))] == [None, None]


@as_root
def test_hung_file_system_is_tried_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that the target's user has mounted."""
    monkeypatch.setattr(source_access, "_PATIENCE", 0.1)
    monkeypatch.setattr(source_access, "_read_regular", lambda *rest, **more: time.sleep(100))
    access = SourceAccess("", EVERYBODY)
    start = time.monotonic()
    assert [read(access, put(folder / f"{number}.py")) for number in range(50)] == [None] * 50
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("by_kernel", [True, False])
def test_links_in_proc_do_not_lead_out_of_another_root(
        folder: Path, monkeypatch: pytest.MonkeyPatch, by_kernel: bool) -> None:
    if not by_kernel:
        def missing(*rest: object) -> int:
            raise NotImplementedError
        monkeypatch.setattr(source_access, "_open_inside", missing)
    outside = put(folder / "outside.py", "outside")
    root = folder / "root"
    put(root / "opt" / "job.py", "inside")
    (root / "out.py").symlink_to(f"/proc/self/root{outside}")
    (root / "fd.py").symlink_to("/proc/self/cwd/outside.py")
    (root / "in.py").symlink_to("/opt/job.py")
    (root / "proc").symlink_to("../../proc")
    access = SourceAccess(str(root))
    assert [read(access, path) for path in ("/out.py", "/fd.py", f"/proc/self/root{outside}")] == [None] * 3
    assert read(access, "/in.py") == b"inside"


@as_root
def test_links_in_the_configured_folders(folder: Path) -> None:
    """Links may lead out if the target's user has as many rights as the debugger's."""
    put(folder / "secret", "root:x:", 0o600)
    put(folder / "path" / "real.py", "inside")
    (folder / "path" / "job.py").symlink_to("../secret")
    (folder / "path" / "link.py").symlink_to(folder / "path" / "real.py")
    folders = (str(folder / "path"),)
    files = SourceFiles(folders, access=SourceAccess("", EVERYBODY))
    assert [files(name, 1) for name in ("job.py", "link.py", "real.py")] == [None, "inside", "inside"]
    assert SourceFiles(folders)("job.py", 1) == "root:x:"


# -- limits -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("user", [None, pytest.param(EVERYBODY, marks=as_root)])
@pytest.mark.slow
def test_file_with_many_names_is_kept_once(folder: Path, user: User | None) -> None:
    put(folder / "job.py", "\n" * (4 << 20))
    files = SourceFiles(access=SourceAccess("", user))
    for number in range(40):
        (folder / f"{number}.py").symlink_to("job.py")
        assert files(str(folder / f"{number}.py"), 1 << 20) == ""
    assert files.notes() == []
    assert len({id(lines) for lines in files._files.values()}) == 1


@pytest.mark.parametrize("user", [None, pytest.param(EVERYBODY, marks=as_root)])
def test_limit_of_bytes_is_one_note(
        folder: Path, user: User | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_TOTAL", 1 << 20)
    files = SourceFiles(access=SourceAccess("", user))
    shown = [files(put(folder / f"{number}.py", "x\n" * (300 << 10)), 1) for number in range(6)]
    assert shown == ["x", "x", None, None, None, None]
    assert files.notes() == ["a limit (2,000 source files, 1 MiB) is reached: lines of other files are not shown"]


def test_limit_of_files_is_one_note(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_FILES", 3)
    files = SourceFiles()
    shown = [files(put(folder / f"{number}.py", "x"), 1) for number in range(5)]
    assert shown == ["x", "x", "x", None, None]
    assert files("/no/such.py", 1) is None
    assert files.notes() == ["a limit (3 source files, 32 MiB) is reached: lines of other files are not shown"]
