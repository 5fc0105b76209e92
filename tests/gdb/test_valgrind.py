"""Valgrind runs a program's threads on threads of its own, so what the program records cannot be matched to them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import interpreters
from tests.support.launcher import launch
from tests.support.samples import wait_until

VALGRIND = shutil.which("valgrind")
#: The main thread keeps the GIL in native code; the other one waits for it.
PROGRAM = """
import ctypes, threading, time
def tick():
    while True:
        time.sleep(0.01)
threading.Thread(target=tick, daemon=True).start()
time.sleep(0.2)
ctypes.PyDLL(None).pause()
"""


@pytest.mark.skipif(VALGRIND is None, reason="valgrind is not installed")
def test_owner_that_cannot_be_matched_is_not_gone(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.12")
    with subprocess.Popen([str(VALGRIND), "--tool=none", "-q", python, "-c", PROGRAM], cwd=tmp_path,
                          start_new_session=True, stderr=subprocess.DEVNULL) as process:
        try:
            def waits_in_pause() -> bool:
                return Path(f"/proc/{process.pid}/syscall").read_text().startswith("34 ")

            wait_until(waits_in_pause, "the main thread to call pause")
            ran = launch("report", str(process.pid), "--json")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    document = ran.document()
    assert (document["verdict"]["kind"], ran.status) == ("unknown", 3)
    assert document["deadlocks"] == []
    gil, = [lock for lock in document["locks"] if lock["kind"] == "gil"]
    assert gil["orphan"] is None
    assert (gil["state"], gil["holders"]) == ("held", [])
