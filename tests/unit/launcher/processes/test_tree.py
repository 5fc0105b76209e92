"""Processes and their threads, on a /proc of files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gdbext.launcher.processes.tree import find_processes, mappings, process_tree, thread_states
from tests.support.fake_host import Host
from tests.support.fake_proc import FakeProc


def test_tree_has_descendants_parents_first(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    for pid, parent in ((300, 100), (200, 100), (250, 200), (400, 1)):
        fake.process(pid, "a (name) R 7", parent)
    assert process_tree(100, str(tmp_path)) == [(100, 1), (200, 100), (300, 100), (250, 200)]
    fake.write("200/stat", "200 (x) Z 100 1 1\n")
    assert [pid for pid, _ in process_tree(100, str(tmp_path))] == [100, 300]


@pytest.mark.parametrize(("wanted", "expected"), [
    ("server", [100, 200, 300]), ("^server$", [100]), (r"python3 .*server\.py", [200, 300]), ("--port 80$", [300]),
    ("nothing", []), ("kernel", []), ("dead", []), ("^$", [100])])
def test_processes_are_found_by_command_line_and_name(wanted: str, expected: list[int], tmp_path: Path) -> None:
    """Those that started gdbext have its arguments in their command lines."""
    fake = FakeProc(tmp_path)
    for pid, parent, line in ((200, 1, "python3\0/srv/server.py\0"), (300, 1, "python3\0server.py\0--port\080\0"),
                              (400, 1, "sudo\0gdbext\0--name\0server\0"), (401, 400, "sh\0-c\0gdbext --name server\0"),
                              (os.getpid(), 401, "gdbext\0--name\0server\0")):
        fake.process(pid, "python3", parent)
        fake.write(f"{pid}/cmdline", line)
    fake.process(500, "kernel server")
    fake.write("500/stat", f"500 (kernel server) S 2 0 0 0 -1 {0x00200000}\n")
    fake.process(501, "dead server")
    fake.write("501/stat", "501 (dead server) Z 1 1 1 0 -1 4194304\n")
    assert find_processes(re.compile(wanted), str(tmp_path)) == expected


def test_search_in_a_command_line_of_another_user_has_a_limit(tmp_path: Path,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    fake = FakeProc(tmp_path)
    for pid, line in ((110, "celery\0" * 500 + "worker\0"), (120, "celery\0" * 60_000 + "worker\0"),
                      (130, "c" * 30), (140, "c" * 30 + "d"), (150, "c" * 30)):
        fake.process(pid, "program", 1)
        fake.write(f"{pid}/cmdline", line)
    # the time for this is the square of the length
    assert find_processes(re.compile("celery.*worker"), str(tmp_path)) == [110]
    assert capsys.readouterr().err == ""
    # for this it doubles with each letter
    assert find_processes(re.compile("(c+)+d"), str(tmp_path)) == [140]
    assert capsys.readouterr().err == (
        "gdbext: the search for (c+)+d takes too long in the command line of process 130 and 1 more, which is left "
        "out; simplify the pattern\n")


def test_thread_states_have_calls_and_switches(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.process(100, "read", [3, 0x7F00, 16])
    host.process(100, None, tid=101)
    found = thread_states(100, str(host.root))
    assert found is not None
    assert (found[100].call, found[100].arguments[:3], found[100].stack, found[100].switches) == (
        0, (3, 0x7F00, 16), 0x7FFC0000, 6)
    assert found[101].call is None
    assert thread_states(999, str(host.root)) == {}


def test_mappings_have_files_and_offsets(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.write("100/maps", "00010000-00011000 rw-s 00000200 00:01 77   /dev/zero (deleted)\nnonsense\n")
    (region,) = mappings(100, str(tmp_path)) or ()
    assert (region.start, region.end, region.offset, region.file) == (0x10000, 0x11000, 0x200, ("00:01", 77))
    assert (region.shared, region.path) == (True, "/dev/zero (deleted)")
    assert mappings(999, str(tmp_path)) is None
