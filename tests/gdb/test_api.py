"""`import gdbext` in a program: reports on real processes and cores, and on the program itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gdbext
from gdbext.errors import BadDocument, GdbextError
from tests.support import gdb_session
from tests.support.launcher import environment
from tests.support.patience import patience
from tests.support.samples import Sample


def test_report_of_a_process(native: Sample) -> None:
    made = gdbext.report(native.pid)
    assert made.verdict.kind == "deadlock"
    assert made.status == 1
    assert {thread.lwp for thread in made.model.threads} == set(native.tids())
    assert "DEADLOCK: 2 threads wait for each other" in str(made)
    assert gdb_session.violations(json.loads(made.to_json())) == []
    assert made.problem is None
    assert made.paused == made.model.target.paused
    assert made.to_dot().startswith("digraph gdbext {")
    assert "<title>gdbext: hang</title>" in made.to_html("gdbext: hang")


def test_text_is_as_the_options_want_it(native: Sample) -> None:
    plain, brief = (str(gdbext.report(native.pid, stacks=stacks)) for stacks in ("full", "none"))
    assert "main () in abba" in plain.partition("\nThreads:\n")[2]
    assert "main () in abba" not in brief.partition("\nThreads:\n")[2]
    assert "\x1b[1;31mDEADLOCK\x1b[0m" in str(gdbext.report(native.pid, colour=True))


def test_report_of_a_core_survives_json(kernel_core: tuple[Path, Sample]) -> None:
    made = gdbext.report(kernel_core[0])
    again = gdbext.Report.from_json(made.to_json())
    assert again.to_json() == made.to_json()
    assert again.verdict == made.verdict
    assert again.to_dot() == made.to_dot()
    assert again.status == 1
    assert "DEADLOCK: 2 threads wait for each other" in str(again)


def test_target_that_does_not_exist_raises() -> None:
    with pytest.raises(GdbextError, match="there is no process 4194305"):
        gdbext.report(4194305)
    with pytest.raises(GdbextError):
        gdbext.report("/nonexistent/core")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_text_that_is_no_document_raises(text: str) -> None:
    with pytest.raises(BadDocument):
        gdbext.Report.from_json(text)


def test_unknown_name_is_no_attribute() -> None:
    assert not hasattr(gdbext, "nonesuch")


#: Its only thread deadlocks with itself while it holds the GIL.
_HOLDS_THE_GIL = """
import ctypes, gdbext, signal, sys
gdbext.install_signal(signal.SIGUSR1, sys.argv[1])
library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
library.pthread_mutex_lock(mutex)
print(flush=True)
library.pthread_mutex_lock(mutex)
"""


def test_process_that_holds_the_gil_reports_on_itself_and_its_helper_ends_with_it(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", _HOLDS_THE_GIL, str(tmp_path)], env=environment(),
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        for count in (1, 2):
            process.send_signal(signal.SIGUSR1)
            end = time.monotonic() + patience(60)
            while len(list(tmp_path.glob("*.txt"))) < count:
                assert time.monotonic() < end
                time.sleep(0.05)
        text = next(tmp_path.glob("*.txt")).read_text()
        assert "pthread mutex" in text
        assert "itself" in text
        assert len(list(tmp_path.glob("*.html"))) == 2
        (helper,) = [int(child) for child in Path(
            f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    finally:
        process.kill()
        process.wait()
    end = time.monotonic() + patience(20)
    while os.path.exists(f"/proc/{helper}") and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{helper}")


#: Its main thread waits for a lock that its other thread holds and that wants the first one's, or for input.
_WATCHED = """
import gdbext, sys, threading
gdbext.install_watchdog(1.0, sys.argv[1])
first, second, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
def other():
    with second:
        both.wait()
        if sys.argv[2] == "deadlock":
            first.acquire()
threading.Thread(target=other, daemon=True).start()
with first:
    both.wait()
    print(flush=True)
    if sys.argv[2] == "deadlock":
        second.acquire()
sys.stdin.read(1)
"""


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("way", ["deadlock", "input"])
def test_watchdog_reports_a_hang_once_and_no_wait_for_input(way: str, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _WATCHED, str(tmp_path), way], env=environment(),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            helper, = _children(process.pid)
            end = time.monotonic() + (patience(60) if way == "deadlock" else 8)
            while not list(tmp_path.glob("*.txt")) and time.monotonic() < end:
                time.sleep(0.1)
            found = list(tmp_path.glob("*.txt"))
            if way == "input":
                assert found == []
                return
            assert "DEADLOCK: 2 threads wait for each other" in found[0].read_text()
            time.sleep(4)
            assert list(tmp_path.glob("*.txt")) == found, "the hang is reported once"
        finally:
            process.kill()
    end = time.monotonic() + patience(20)
    while os.path.exists(f"/proc/{helper}") and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{helper}")


def test_watchdog_wants_a_positive_time(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="more than 0 seconds"):
        gdbext.install_watchdog(0, tmp_path)
