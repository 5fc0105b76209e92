"""Runs the busy programs of tests/samples/busy.c, and reads what they have noticed."""

from __future__ import annotations

import contextlib
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.samples import build, wait_until

#: The exit status of a program that may not use what it needs.
NOT_PERMITTED = 77


class Counters(NamedTuple):
    """``struct counters`` of the program."""

    steps: int
    interrupted: int
    partial: int
    wrong: int
    longest_ns: int


class Busy:
    """A running program."""

    def __init__(self, process: subprocess.Popen[bytes], file: Path) -> None:
        self.process, self.pid = process, process.pid
        self._file = file

    @property
    def counters(self) -> Counters:
        """What the program has counted so far."""
        return Counters(*struct.unpack("5Q", self._file.read_bytes()))

    def wait_for_steps(self, number: int) -> None:
        """Wait until the program has gone on by so many steps."""
        wanted = self.counters.steps + number
        wait_until(lambda: self.counters.steps >= wanted, f"{wanted} steps", seen=lambda: self.counters)


@contextlib.contextmanager
def busy(mode: str, directory: Path) -> Iterator[Busy]:
    """Run a program until it has begun to work, and kill it afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / mode
    file.write_bytes(bytes(40))
    with subprocess.Popen([build("busy"), mode, file], stdin=subprocess.DEVNULL) as process:
        try:
            running = Busy(process, file)
            wait_until(lambda: running.counters.steps >= 3 or process.poll() is not None, "3 steps",
                       seen=lambda: running.counters)
            if process.poll() == NOT_PERMITTED:
                pytest.skip("io_uring is not permitted here")
            assert process.poll() is None, f"the program ended with status {process.poll()}"
            yield running
        finally:
            process.kill()
