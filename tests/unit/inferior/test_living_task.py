"""The thread by which /proc shows a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdbext.inferior.living_task import has_ended, living_task
from tests.support.fake_proc import FakeProc
from tests.support.samples import wait_until


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def add(fake: FakeProc, states: dict[int, str]) -> None:
    for tid, state in states.items():
        for folder in (str(tid), f"{fake.pid}/task/{tid}"):
            fake.write(f"{folder}/stat", f"{tid} (a) b) {state} 1 1\n")


@pytest.mark.parametrize(("states", "expected"), [
    ({100: "S", 101: "R"}, 100), ({100: "Z", 102: "S", 101: "R"}, 101), ({100: "Z", 101: "X", 102: "D"}, 102),
    ({100: "Z"}, 100), ({100: "T", 101: "T"}, 100)])
def test_first_living_thread_shows_the_process(fake: FakeProc, states: dict[int, str], expected: int) -> None:
    add(fake, states)
    assert living_task(fake.pid, str(fake.root)) == expected


def test_memory_and_descriptors_are_those_of_the_living_thread(fake: FakeProc) -> None:
    add(fake, {100: "Z", 101: "S"})
    fake.write("101/maps", "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 [stack]\n")
    os.makedirs(fake.root / "101/fd")
    os.symlink("pipe:[7]", fake.root / "101/fd/3")
    proc = fake.proc()
    assert [region.start for region in proc.regions()] == [0x7F00_0000_0000]
    assert proc.link(3) == "pipe:[7]"
    assert (100, 3) in [(each.pid, each.fd) for each in proc.having("pipe:[7]")]


def test_zombie_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        wait_until(lambda: has_ended(process.pid), "the program to end")
        assert living_task(process.pid) == process.pid
    assert has_ended(process.pid)
