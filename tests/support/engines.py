"""Engines of several processes: the program tests/samples/engine.py, and others that print the same line."""

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


class Engine(NamedTuple):
    """A running engine: the PID of the process that has started the others, and theirs by name."""

    pid: int
    processes: dict[str, int]


@contextlib.contextmanager
def running(scene: str, directory: Path, python: str | Path = sys.executable,
            program: Path = samples.SOURCES / "engine.py") -> Iterator[Engine]:
    """Run an engine until its processes are in their final state; then it ends."""
    with subprocess.Popen([python, program, scene], cwd=directory, stdout=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield Engine(said["pid"], said["processes"])
        finally:
            os.killpg(process.pid, signal.SIGKILL)
