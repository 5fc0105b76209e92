"""The open files of descriptors, compared by the kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdbext.arch import system_call_number
from gdbext.inferior.open_files import Descriptor, OpenFiles


@pytest.fixture
def files() -> OpenFiles:
    return OpenFiles(system_call_number("kcmp"))


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
    assert OpenFiles(None).is_same(Descriptor(1, 0), Descriptor(1, 0)) is None


def test_system_call_that_does_not_exist_has_no_number() -> None:
    assert system_call_number("no_such_call") is None
