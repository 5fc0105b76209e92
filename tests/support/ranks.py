"""Jobs of several ranks: the program tests/samples/ranks.py with its stand-in for PyTorch's library."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support import samples

#: How many ranks a job has.
SIZE = 3


class Job(NamedTuple):
    """A running job: the PID of the launcher, and those of its ranks."""

    pid: int
    ranks: list[int]


@contextlib.contextmanager
def running(scene: str, directory: Path, size: int = SIZE) -> Iterator[Job]:
    """Run a job of some ranks until its ranks are in their final state; then it ends."""
    program = samples.SOURCES / "ranks.py"
    with subprocess.Popen([sys.executable, program, scene, str(size), samples.build("libtorch_cpu.so")],
                          cwd=directory, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield Job(said["pid"], said["ranks"])
        finally:
            os.killpg(process.pid, signal.SIGKILL)
