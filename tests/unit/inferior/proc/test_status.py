"""Fields of stat and status, on a /proc of files and of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gdbext.inferior.proc.status import (
    has_ended,
    is_forked,
    is_kernel_thread,
    living_task,
    parent_of,
    process_tree,
    start_of,
    state_of,
    status_field,
)
from tests.support.fake_proc import FakeProc
from tests.support.samples import wait_until


def test_parent_and_state_of_a_process_whose_name_has_brackets(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(200, "a (name) R 7", 100)
    fake.write("7/stat", "7 (x) Z 100 1 1\n")
    assert parent_of(200, str(tmp_path)) == 100
    assert state_of(7, str(tmp_path)) == "Z"
    fake.write("7/stat", "7 (x)\n")
    assert (parent_of(7, str(tmp_path)), state_of(7, str(tmp_path))) == (None, None)


def test_process_that_has_ended_has_no_fields(tmp_path: Path) -> None:
    assert parent_of(999, str(tmp_path)) is None
    assert state_of(999, str(tmp_path)) is None
    assert status_field(1 << 22, "Name") is None


def test_when_a_process_was_started(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.write("7/stat", "7 (a) b) S 1 7 7 0 -1 4194560 209 0 0 0 0 0 0 0 20 0 1 0 4711 2703360 180\n")
    assert start_of(7, str(tmp_path)) == 4711
    assert start_of(8, str(tmp_path)) is None


def test_process_is_forked_until_it_starts_a_program() -> None:
    assert not is_forked(os.getppid())
    child = os.fork()
    if child == 0:
        signal.pause()
    assert is_forked(child)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert is_forked(child), "it is not known of a process that has ended"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        assert not is_forked(program.pid)
        program.kill()


def test_threads_of_the_kernel(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.write("2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0\n")
    assert is_kernel_thread(2, str(tmp_path))
    assert not is_kernel_thread(100, str(tmp_path))
    assert not is_kernel_thread(999, str(tmp_path))


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
    assert proc.descriptors.link(3) == "pipe:[7]"
    assert (100, 3) in [(each.pid, each.fd) for each in proc.descriptors.having("pipe:[7]")]


def test_zombie_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        wait_until(lambda: has_ended(process.pid), "the program to end")
        assert living_task(process.pid) == process.pid
    assert has_ended(process.pid)


def test_tree_has_descendants_parents_first(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    for pid, parent in ((300, 100), (200, 100), (250, 200), (400, 1)):
        fake.process(pid, "a (name) R 7", parent)
    assert process_tree(100, str(tmp_path)) == [(100, 1), (200, 100), (300, 100), (250, 200)]
    fake.write("200/stat", "200 (x) Z 100 1 1\n")
    assert [pid for pid, _ in process_tree(100, str(tmp_path))] == [100, 300]
