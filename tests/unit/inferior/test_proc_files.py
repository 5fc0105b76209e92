"""Fields of /proc/PID/stat, on a /proc of files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from gdbext.inferior.proc_files import is_forked, is_kernel_thread, parent_of, start_of, state_of, status_field
from tests.support.fake_proc import FakeProc


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
