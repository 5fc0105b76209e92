"""Reads of small files and links, from a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdbext.inferior.proc.files import numbers, read_lines, read_link, read_small, read_text


def test_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\xff\ntwo")
    path = str(tmp_path / "a")
    assert (read_text(path), read_text(path, 3)) == ("one\\xff\ntwo", "one")
    assert read_lines(path) == ["one\\xff", "two"]
    assert (read_small(path), read_small(path, 3)) == (b"one\xff\ntwo", b"one")
    folder = os.open(tmp_path, os.O_RDONLY)
    assert read_small("a", folder=folder) == b"one\xff\ntwo"
    os.close(folder)


def test_what_is_missing_is_none_or_empty(tmp_path: Path) -> None:
    path = str(tmp_path / "nothing")
    assert (read_text(path), read_link(path), read_lines(path), numbers(path)) == (None, None, [""], [])
    with pytest.raises(FileNotFoundError):
        read_small(path)


def test_numbers_are_the_numeric_names(tmp_path: Path) -> None:
    for name in ("12", "3", "self", "7x"):
        (tmp_path / name).mkdir()
    assert numbers(str(tmp_path)) == [3, 12]
