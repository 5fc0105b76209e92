from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gdbext.render import source
from gdbext.render.source import SourceFiles, SourceLines
from gdbext.render.source_access import SourceAccess


@pytest.mark.parametrize(("data", "lines"), [
    (b"", [""]),
    (b"a\nb\n", ["a", "b", ""]),
    (b"a\r\nb\rc", ["a", "b", "c"]),
    (b"\xef\xbb\xbfa\n", ["a", ""]),
    ("# -*- coding: utf-8 -*-\nprint('ü')".encode(), ["# -*- coding: utf-8 -*-", "print('ü')"]),
    (b"#!/usr/bin/python\n# vim: set fileencoding=iso-8859-1 :\n'\xfc'",
     ["#!/usr/bin/python", "# vim: set fileencoding=iso-8859-1 :", "'ü'"]),
    # undecodable bytes are replaced
    (b"'\xfc'\n", ["'\ufffd'", ""]),
    (b"# coding: no-such-thing\n'\xfc'", ["# coding: no-such-thing", "'\ufffd'"]),
    (b"# coding: rot13\nnop", ["# coding: rot13", "nop"]),
    (b"# coding: punycode\nabc", ["# coding: punycode", "abc"]),
    (b"# coding: unicode_escape\n\\x41", ["# coding: unicode_escape", "\\x41"]),
    (b"a\x0cb\x0bc", ["a\x0cb\x0bc"]),
])
def test_lines_of_encodings(data: bytes, lines: list[str]) -> None:
    found = SourceLines(data)
    assert [found[index] for index in range(len(found))] == lines


# -- which files are read -------------------------------------------------------------------------------------

WHERE = "; `help set gdbext source-path` shows where gdbext searches"


def put(path: Path, text: str = "here = 1\n", changed: float | None = None) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if changed is not None:
        os.utime(path, (changed, changed))
    return str(path)


def test_lines_of_a_file(tmp_path: Path) -> None:
    path = put(tmp_path / "job.py", "a\nb\n")
    read = SourceFiles()
    assert [read(path, line) for line in (-1, 0, 1, 2, 3, 4, 1 << 40)] == [None, None, "a", "b", "", None, None]
    assert read.notes() == []


def test_file_is_read_once(tmp_path: Path) -> None:
    path = put(tmp_path / "job.py", "old")
    read = SourceFiles()
    assert read(path, 1) == "old"
    put(tmp_path / "job.py", "new")
    assert read(path, 1) == "old"


@pytest.mark.parametrize("name", ["<string>", "<frozen importlib._bootstrap>", "", "/etc/passwd", "job.txt", "job.pyc"])
def test_other_suffixes_are_not_searched(tmp_path: Path, name: str) -> None:
    put(tmp_path / "job.txt")
    put(tmp_path / "job.pyc")
    read = SourceFiles((str(tmp_path),))
    assert read(name, 1) is None
    assert read.notes() == []


def test_missing_files_are_one_note(tmp_path: Path) -> None:
    read = SourceFiles()
    for name in ("a.py", "b.py", "a.py"):
        assert read(f"{tmp_path}/{name}", 1) is None
    assert read.notes() == [f"no source for 2 files, such as {tmp_path}/a.py{WHERE}"]
    one = SourceFiles()
    one("/no\x1b[2J/a.py", 1)
    assert one.notes() == [f"no source for 1 file, such as /no\\x1b[2J/a.py{WHERE}"]


def make_folder(path: Path) -> None:
    path.mkdir()


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_circle(path: Path) -> None:
    path.symlink_to(path)


def make_unreadable(path: Path) -> None:
    path.symlink_to("/proc/1/no-such-file")


@pytest.mark.parametrize("make", [make_folder, make_fifo, make_link_to_device, make_circle, make_unreadable])
def test_only_regular_files_are_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "job.py"
    make(path)
    for read in (SourceFiles(), SourceFiles(access=SourceAccess(str(tmp_path))), SourceFiles((str(tmp_path),))):
        assert read(str(path), 1) is None
        assert len(read.notes()) == 1


def test_device_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.py").symlink_to("/dev/null")
    opened: list[str] = []
    monkeypatch.setattr(os, "open", lambda path, flags: opened.append(path))
    assert SourceFiles()(str(tmp_path / "job.py"), 1) is None
    assert opened == []


def test_file_replaced_by_a_device_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = put(tmp_path / "job.py"), os.open
    monkeypatch.setattr(os, "open", lambda path, flags: real("/dev/zero", flags))
    assert SourceFiles()(path, 1) is None


@pytest.mark.parametrize("name", ["a\0b.py", "/a\0b.py", "/\udc80.py", "/" + "x" * 5000 + ".py",
                                  "/" + "x/" * 5000 + "y.py"])
def test_impossible_file_names(tmp_path: Path, name: str) -> None:
    for read in (SourceFiles((str(tmp_path),)), SourceFiles(access=SourceAccess(str(tmp_path)))):
        assert read(name, 1) is None
        assert all(note.isprintable() for note in read.notes())


def test_only_the_beginning_of_a_large_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_SOURCE", 6)
    read = SourceFiles()
    path = put(tmp_path / "job.py", "abc\ndef\nghi\n")
    assert [read(path, line) for line in (1, 2, 3)] == ["abc", "de", None]


# -- source-path ----------------------------------------------------------------------------------------------

def test_longest_matching_end_of_a_path_wins(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    put(folders[0] / "job.py", "bare")
    put(folders[0] / "pkg" / "job.py", "pkg")
    put(folders[1] / "app" / "pkg" / "job.py", "app")
    read = SourceFiles(tuple(map(str, folders)))
    assert read("/app/pkg/job.py", 1) == "app"
    assert read("/srv/pkg/job.py", 1) == "pkg"
    assert read("/srv/other/job.py", 1) == "bare"
    assert read("pkg/job.py", 1) == "pkg"
    assert read("./job.py", 1) == "bare"
    assert read.notes() == []


def test_folders_come_before_the_own_path(tmp_path: Path) -> None:
    there = put(tmp_path / "there" / "pkg" / "job.py", "there")
    put(tmp_path / "here" / "pkg" / "job.py", "here")
    assert SourceFiles((str(tmp_path / "here"),))(there, 1) == "here"
    assert SourceFiles()(there, 1) == "there"


def test_bare_name_comes_after_the_own_path(tmp_path: Path) -> None:
    there = put(tmp_path / "there" / "pkg" / "utils.py", "there")
    put(tmp_path / "here" / "utils.py", "another one")
    assert SourceFiles((str(tmp_path / "here"),))(there, 1) == "there"
    assert SourceFiles((str(tmp_path / "here"),), anywhere=False)(there, 1) == "another one"


@pytest.mark.parametrize("name", ["__init__.py", "__main__.py"])
def test_common_names_do_not_identify_a_file(tmp_path: Path, name: str) -> None:
    put(tmp_path / name, "of another package")
    put(tmp_path / "pkg" / name, "pkg")
    read = SourceFiles((str(tmp_path),))
    assert read(f"/usr/lib/json/{name}", 1) is None
    assert read(f"/usr/lib/pkg/{name}", 1) == "pkg"


def test_own_path_is_not_read_if_only_folders_are_allowed(tmp_path: Path) -> None:
    there = put(tmp_path / "there" / "job.py", "there")
    folder = tmp_path / "here"
    read = SourceFiles((str(folder),), anywhere=False)
    assert read(there, 1) is None
    assert SourceFiles(anywhere=False)(there, 1) is None
    put(folder / "app" / "job.py", "here")
    assert read("/app/job.py", 1) == "here"


@pytest.mark.parametrize("name", ["../secret.py", "/app/../../secret.py", "/../secret.py", "/x/../../../{outside}",
                                  "pkg/../../secret.py"])
def test_name_does_not_lead_out_of_the_folders(tmp_path: Path, name: str) -> None:
    outside = put(tmp_path / "secret.py", "secret")
    folder = tmp_path / "here" / "deep"
    (folder / "pkg").mkdir(parents=True)
    read = SourceFiles((str(folder), str(folder / "pkg")), anywhere=False)
    assert read(name.format(outside=outside[1:]), 1) is None


def test_relative_names_are_not_read_from_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "job.py")
    monkeypatch.chdir(tmp_path)
    assert SourceFiles()("job.py", 1) is None
    assert SourceFiles(access=SourceAccess("/"))("job.py", 1) is None
    assert SourceFiles((str(tmp_path),))("job.py", 1) == "here = 1"


# -- another root directory -----------------------------------------------------------------------------------

def test_links_below_another_root_stay_inside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(root / "opt" / "app" / "job.py", "inside")
    put(tmp_path / "outside.py", "outside")
    (root / "srv").mkdir()
    (root / "srv" / "absolute").symlink_to("/opt/app")
    (root / "srv" / "relative").symlink_to("../../../opt/./app")
    (root / "srv" / "job.py").symlink_to("absolute/job.py")
    (root / "srv" / "out.py").symlink_to(tmp_path / "outside.py")
    (root / "srv" / "up.py").symlink_to("../../outside.py")
    (root / "srv" / "circle").symlink_to("circle")
    read = SourceFiles(access=SourceAccess(str(root)))
    for path in ("/opt/app/job.py", "/srv/absolute/job.py", "/srv/relative/job.py", "/srv/job.py",
                 "/srv/absolute/../app/job.py", "/../../opt//app/job.py"):
        assert read(path, 1) == "inside", path
    for path in ("/srv/out.py", "/srv/up.py", "/../outside.py", "/srv/circle/job.py", str(tmp_path / "outside.py")):
        assert read(path, 1) is None, path


@pytest.mark.parametrize("path", ["/opt/app/job.py", "/srv/absolute/job.py", "/srv/relative/job.py",
                                  "/../opt/app/job.py"])
def test_own_path_in_another_root_is_that_of_the_file(tmp_path: Path, path: str) -> None:
    """Links are resolved: outside that root, an absolute one would lead elsewhere."""
    root = tmp_path / "root"
    here = put(root / "opt" / "app" / "job.py", "inside")
    (root / "srv").mkdir()
    (root / "srv" / "absolute").symlink_to("/opt/app")
    (root / "srv" / "relative").symlink_to("../opt/app")
    files = SourceFiles(access=SourceAccess(str(root)))
    assert files.own_path(path) == here
    assert files.own_path("/opt/app/other.py") is None
    assert SourceFiles(access=SourceAccess("/proc/self/root")).own_path(here) == here


def test_own_path_follows_the_order_of_places(tmp_path: Path) -> None:
    named, copy = put(tmp_path / "app" / "job.py"), put(tmp_path / "src" / "app" / "job.py")
    bare = put(tmp_path / "bare" / "job.py")
    (tmp_path / "folder.py").mkdir()
    other = put(tmp_path / "job.txt")
    assert SourceFiles().own_path(named) == named
    assert SourceFiles([str(tmp_path / "src")]).own_path(named) == copy
    assert SourceFiles([str(tmp_path / "bare")]).own_path(named) == named
    assert SourceFiles([str(tmp_path / "bare")], anywhere=False).own_path(named) == bare
    assert SourceFiles(anywhere=False).own_path(named) is None
    assert [SourceFiles().own_path(path) for path in ("job.py", other, str(tmp_path / "folder.py"), "")] == [None] * 4


def test_own_paths_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_FILES", 2)
    files = SourceFiles()
    paths = [put(tmp_path / f"{index}.py") for index in range(3)]
    assert [files.own_path(path) for path in (*paths, paths[0])] == [*paths[:2], None, paths[0]]


# -- newer files ----------------------------------------------------------------------------------------------

def test_each_newer_file_is_one_note(tmp_path: Path) -> None:
    asked: list[int] = []

    def since() -> float:
        asked.append(1)
        return 1000.0

    old, same = put(tmp_path / "old.py", "x", 900), put(tmp_path / "same.py", "x", 1000.01)
    new, newest = put(tmp_path / "new.py", "x", 1001), put(tmp_path / "newest.py", "x", 2000)
    for what in ("process", "core"):
        read = SourceFiles(since=since, what=what)
        for path in (new, old, new, same, newest):
            assert read(path, 1) == "x"
        assert read.notes() == [f"{path} is newer than the {what}: its lines may differ from the running code"
                                for path in (new, newest)]
    assert len(asked) == 2


def test_unknown_start_time_gives_no_note(tmp_path: Path) -> None:
    read = SourceFiles()
    read(put(tmp_path / "job.py", "x", 4e9), 1)
    assert read.notes() == []


def test_many_newer_files(tmp_path: Path) -> None:
    read = SourceFiles(since=lambda: 5.0)
    for index in range(13):
        read(put(tmp_path / f"{index}.py"), 1)
    assert len(read.notes()) == 11
    assert read.notes()[-1] == "3 more source files are newer than the process"


def test_relative_path_begins_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    put(tmp_path / "app" / "m.py")
    for path in ("app/m.py", "./app/../app/m.py"):
        assert SourceFiles(directory=lambda: str(tmp_path))(path, 1) == "here = 1"
        assert SourceFiles(anywhere=False, directory=lambda: str(tmp_path))(path, 1) is None
        # unreachable from here
        assert SourceFiles(directory=lambda: "(unreachable)/app")(path, 1) is None
        assert SourceFiles()(path, 1) is None
