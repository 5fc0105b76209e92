"""Processes and their threads, on a /proc of files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gdbext.launcher.named_processes import find_processes
from tests.support.fake_proc import FakeProc


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
