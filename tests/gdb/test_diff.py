"""`gdbext diff` of two reports on one real process, some seconds apart."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.launcher import launch

PROGRAMS = {
    "deadlock": """
one, other = threading.Lock(), threading.Lock()
def work(first, second):
    with first:
        both.wait()
        second.acquire()
both = threading.Barrier(3)
for pair in ((one, other), (other, one)):
    threading.Thread(target=work, args=pair).start()
both.wait()
print(flush=True)
""",
    "handed": """
lock = threading.Lock()
def hold(seconds):
    with lock:
        print(flush=True)
        time.sleep(seconds)
def waiting():
    with lock:
        pass
threading.Thread(target=hold, args=(3,), name="first").start()
time.sleep(0.5)
threading.Thread(target=hold, args=(1000,), name="second").start()
time.sleep(0.5)
threading.Thread(target=waiting, name="third").start()
""",
    "retries": """
lock = threading.Lock()
def work():
    while not lock.acquire(timeout=0.2):
        pass
lock.acquire()
threading.Thread(target=work).start()
print(flush=True)
threading.Event().wait()
"""}


@contextlib.contextmanager
def saved(program: str, folder: Path, seconds: float) -> Iterator[list[Path]]:
    """Two reports on a program."""
    process = subprocess.Popen([sys.executable, "-c", "import threading, time\n" + PROGRAMS[program]],
                               stdout=subprocess.PIPE)
    files = [folder / "a.json", folder / "b.json"]
    try:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(1.5)
        for file in files:
            file.write_text(launch("report", str(process.pid), "--json", gdb=None).stdout)
            if file is files[0]:
                time.sleep(seconds)
        yield files
    finally:
        process.kill()
        process.communicate()


def difference(files: list[Path]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(launch("diff", *files, "--json", gdb=None).stdout)
    return made


def test_deadlock_is_proven(tmp_path: Path) -> None:
    with saved("deadlock", tmp_path, 4) as files:
        made = launch("diff", *files, gdb=None)
        assert made.status == 1
        assert "\nHANG PROVEN: DEADLOCK: 2 threads wait for each other" in made.stdout
        assert "none of the 2 threads has run in" in made.stdout
        assert len(difference(files)["lasted"]) == 3


def test_lock_that_changed_hands_is_no_proof(tmp_path: Path) -> None:
    with saved("handed", tmp_path, 5) as files:
        made = difference(files)
        assert made["proof"] != "proven"
        assert [each["before"] != each["after"] for each in made["handed"]] == [True]
        assert made["gone"]
        assert "Locks that changed hands:\n  Threading.Lock" not in launch("diff", *files, gdb=None).stdout


def test_wait_that_is_repeated_is_no_proof(tmp_path: Path) -> None:
    with saved("retries", tmp_path, 4) as files:
        made = difference(files)
        assert made["proof"] != "proven"
        assert made["ran"]


def test_reports_on_two_processes_cannot_be_compared(tmp_path: Path) -> None:
    with saved("retries", tmp_path, 0) as files:
        document = json.loads(files[1].read_text())
        document["target"]["pid"] += 1
        files[1].write_text(json.dumps(document))
    made = launch("diff", *files, gdb=None)
    assert made.status == 2
    assert "name two reports on one process" in made.stderr
