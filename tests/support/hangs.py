"""The programs of tests/samples/hangs.py, while they hang."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.samples import SOURCES, wait_until

PROGRAM = SOURCES / "hangs.py"


@contextlib.contextmanager
def running(variant: str, python: str | Path = sys.executable) -> Iterator[int]:
    """Run a program until its threads do not move any more; give the PID to inspect."""
    with subprocess.Popen([python, PROGRAM, variant], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          start_new_session=True) as process:
        assert process.stdout is not None
        try:
            pid = int(process.stdout.readline())
            if variant != "computing":
                wait_until(lambda: is_still(pid), f"{variant} to come to rest")
            yield pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def switches(pid: int) -> dict[str, str]:
    """How often each thread slept, if all threads sleep."""
    texts = {task.name: (task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()}
    if any("State:\tS" not in text for text in texts.values()):
        return {}
    return {name: text.partition("voluntary_ctxt_switches:\t")[2] for name, text in texts.items()}


def is_still(pid: int) -> bool:
    """Whether as many threads sleep as a moment before; the threads of a pool of processes wake up regularly."""
    before = switches(pid)
    time.sleep(0.2)
    return len(before) > 0 and len(switches(pid)) == len(before)
