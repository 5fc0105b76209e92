"""`gdbext issue` and `--redact` of real processes and cores: nothing private, versions, one class on each machine."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.launcher import launch
from tests.support.samples import wait_until

PROGRAM = """
import socket, sys, threading
sys.path[:0] = [sys.argv[1]]
import hangs_pkg

class Account:
    def __init__(self, name):
        self.name, self.lock = name, threading.Lock()

def transfer(source, target, note):
    with source.lock:
        both.wait()
        hangs_pkg.call(lambda: target.lock.acquire())

both = threading.Barrier(3)
one, other = Account("hunter2-customer"), Account("hunter2-other")
for pair in ((one, other), (other, one)):
    threading.Thread(target=transfer, args=(*pair, "hunter2-note")).start()
both.wait()
print(flush=True)
with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as peer:
    peer.recv(1)
"""


@contextlib.contextmanager
def hanging(folder: Path) -> Iterator[int]:
    """A process of a deadlock, in a folder and with arguments, values and a package that its report may show."""
    site = folder / "lib" / "python3.11" / "site-packages"
    (site / "hangs_pkg").mkdir(parents=True)
    (site / "hangs_pkg" / "__init__.py").write_text("def call(function):\n    function()\n")
    (site / "hangs_pkg-4.5.6.dist-info").mkdir()
    (folder / "job.py").write_text(PROGRAM)
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = subprocess.Popen([sys.executable, str(folder / "job.py"), str(site), str(server.getsockname()[1]),
                                    "--token=hunter2-token"], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            process.stdout.readline()
            wait_until(lambda: launch("report", str(process.pid), gdb=None).status == 1, "the deadlock")
            yield process.pid
        finally:
            process.kill()
            process.communicate()


def secrets(folder: Path) -> list[str]:
    return ["hunter2", str(folder), folder.name, socket.gethostname(), "job.py " + str(folder)[:4], "target.lock.acq("]


def test_block_has_versions_and_verdict_and_nothing_private(tmp_path: Path) -> None:
    folder = tmp_path / "acme-project"
    folder.mkdir()
    with hanging(folder) as pid:
        whole = launch("report", str(pid), gdb=None).stdout
        assert "hunter2" in whole
        made = launch("issue", str(pid), gdb=None)
        assert made.status == 1
        for shown in (made.stdout, *(launch("report", str(pid), "--redact", *more, gdb=None).stdout
                                     for more in ((), ("--json",), ("--brief",), ("--brief", "--json"),
                                                  ("--children",), ("--dot", "-")))):
            assert [secret for secret in secrets(folder) if secret in shown] == []
        lines = made.stdout.split("\n")
        assert (lines[0], lines[-2]) == ("```text", "```")
        assert re.match(r"gdbext [\d.]+\S*, CPython 3\.\d+\.\d+.*, (glibc|musl) .*, Linux [^,]+, .*", lines[1])
        assert "hangs-pkg 4.5.6" in lines[2]
        assert re.fullmatch(r"class: deadlock [0-9a-f]{16}", lines[3])
        assert lines[5].startswith("DEADLOCK: 2 threads wait for each other")
        assert "  #0" in made.stdout.replace("    #0", "  #0")
        assert lines[-3].startswith("Left out: what is private: the arguments of the program, ")
        saved = folder / "found.json"
        saved.write_text(launch("report", str(pid), "--json", gdb=None).stdout)
        source = launch("issue", str(pid), "--source", gdb=None).stdout
        assert "with source.lock:" in source
    for words in (("issue", saved), ("show", saved, "--redact"), ("show", saved, "--redact", "--json")):
        ran = launch(*words, gdb=None)
        assert ran.status == 1
        assert [secret for secret in secrets(folder) if secret in ran.stdout] == []
    assert lines[3] in launch("issue", saved, gdb=None).stdout


def test_class_is_the_same_in_each_folder(tmp_path: Path) -> None:
    classes = set()
    for name in ("first/some-project", "second"):
        (tmp_path / name).mkdir(parents=True)
        with hanging(tmp_path / name) as pid:
            for more in ((), ("--tree",)):
                classes.add(re.findall("^class: .*", launch("issue", str(pid), *more, gdb=None).stdout, re.M)[0])
    assert len(classes) == 1


@pytest.mark.parametrize("words", [("issue", "0"), ("issue", "/dev/null"), ("issue", "/no/found.json")])
def test_target_that_cannot_be_read_is_one_line(words: tuple[str, ...]) -> None:
    made = launch(*words, gdb=None)
    assert (made.stdout, made.status) == ("", 3)
    assert made.stderr.startswith("gdbext issue: ")


def test_family_of_processes_is_one_block(tmp_path: Path) -> None:
    with hanging(tmp_path) as pid:
        made = launch("issue", str(pid), "--tree", gdb=None)
        assert made.status == 1
        assert f"process {pid} " in made.stdout
        assert os.path.basename(str(tmp_path)) not in made.stdout
