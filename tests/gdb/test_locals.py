"""`gdbext report --locals`: the variables of Python frames, of processes and cores, bounded and withheld."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import gdb_session
from tests.support.launcher import launch

PROGRAM = """
import threading, time
class Account:
    def __init__(self):
        self.owner, self.note = "hunter2", "x" * 5000
    def __repr__(self):
        raise SystemExit("no code of the target may run")

def work(account, amounts, text, depth=0):
    if depth < 3:
        return work(account, amounts, text, depth + 1)
    print(flush=True)
    lock.acquire()

def spin(counter):
    while True:
        counter += 1

lock = threading.Lock()
lock.acquire()
threading.Thread(target=work, args=(Account(), list(range(100_000)), "a\\x1b[31m\\n#0 forged"), daemon=True).start()
threading.Thread(target=spin, args=(0,), daemon=True).start()
threading.Event().wait()
"""


@contextlib.contextmanager
def running(*, busy: bool = True) -> Iterator[int]:
    program = PROGRAM if busy else PROGRAM.replace("target=spin", "target=work_less").replace(
        "def spin(", "def work_less(counter): threading.Event().wait()\ndef spin(")
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3)
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def locals_of(document: dict[str, Any], function: str) -> list[dict[str, Any]]:
    return [{each["name"]: each["value"] for each in frame["locals"]} for thread in document["threads"]
            for frame in thread["stack"] if frame["language"] == "python" and frame["function"] == function
            and "locals" in frame]


def test_variables_of_python_frames_are_shown() -> None:
    with running() as pid:
        made = launch("report", str(pid), "--locals", gdb=None)
        document = launch("report", str(pid), "--locals", "--json", gdb=None).document()
        saved = launch("report", str(pid), "--json", gdb=None).document()
    assert made.stdout.count("owner='hunter2'") == 4
    assert "\n           text: str = 'a\\x1b[31m\\n#0 forged'\n" in made.stdout
    assert "\n           amounts: list = [0, 1, 2, " in made.stdout
    frames = locals_of(document, "work")
    assert [frame["depth"] for frame in frames] == ["3", "2", "1", "0"]
    assert all(len(value) < 1_000 for frame in frames for value in frame.values())
    assert int(locals_of(document, "spin")[0]["counter"]) > 0
    assert locals_of(saved, "work") == []


def test_variables_are_redacted_and_saved(tmp_path: Path) -> None:
    with running(busy=False) as pid:
        assert "hunter2" not in launch("report", str(pid), "--locals", "--redact", gdb=None).stdout
        document = launch("report", str(pid), "--locals", "--json", gdb=None).stdout
    (tmp_path / "found.json").write_text(document)
    assert "owner='hunter2'" in launch("show", tmp_path / "found.json", gdb=None).stdout
    redacted = launch("show", tmp_path / "found.json", "--redact", "--json", gdb=None).stdout
    assert "hunter2" not in redacted
    assert locals_of(json.loads(redacted), "work") != []


def test_variables_of_a_core_are_shown(tmp_path: Path) -> None:
    with running(busy=False) as pid:
        core = tmp_path / "core"
        gdb_session.batch(["-p", str(pid)], [f"generate-core-file {core}"], load=False, symbols=False)
    assert launch("report", core, "--locals", gdb=None).stdout.count("owner='hunter2'") == 4


def test_gdb_has_a_command_of_its_own() -> None:
    made = launch("report", "1", "--locals", "--gdb", "gdb", gdb=None)
    assert made.status == 2
    assert "py-mixed-bt -full" in made.stderr
