"""Reading without GDB ends no system call of a thread that sleeps, and at most one of a thread that runs."""

from __future__ import annotations

import contextlib
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gdbext.direct.unmoved import read_unmoved
from gdbext.errors import GdbextError
from tests.support.samples import build, thread_state, wait_until

_CALLS = 8
_ROW = struct.Struct("16s3Q")
#: As many as a test may take.
LOOKS = 6


class Row(NamedTuple):
    """``struct row`` of the program."""

    name: str
    tid: int
    rounds: int
    ended: int


class Program:
    """A running program."""

    def __init__(self, pid: int, file: Path) -> None:
        self.pid, self._file = pid, file

    def rows(self) -> list[Row]:
        data = self._file.read_bytes()
        return [Row(name.rstrip(b"\0").decode(), *numbers) for name, *numbers in _ROW.iter_unpack(data)]

    def ended(self) -> dict[str, int]:
        return {row.name: row.ended for row in self.rows()}

    def wait_for_rounds(self) -> None:
        """Wait until each thread has counted how its present call ended."""
        before = {row.name: row.rounds for row in self.rows()}
        wait_until(lambda: all(row.rounds > before[row.name] for row in self.rows()), "a round of each thread",
                   seen=self.rows)


@contextlib.contextmanager
def program(directory: Path, milliseconds: int, burns: bool) -> Iterator[Program]:
    file = directory / "rows"
    file.write_bytes(bytes(_CALLS * _ROW.size))
    with subprocess.Popen([build("ended_calls"), file, str(milliseconds), str(int(burns))]) as process:
        try:
            running = Program(process.pid, file)
            wait_until(lambda: all(row.tid for row in running.rows()), "all threads", seen=running.rows)
            yield running
        finally:
            process.kill()


@pytest.mark.parametrize("burns", [False, True], ids=["", "burning"])
def test_calls_of_sleeping_threads_do_not_end(burns: bool, tmp_path: Path) -> None:
    with program(tmp_path, 100_000, burns) as running:
        for row in running.rows():
            wait_until(lambda tid=row.tid: thread_state(tid) == "S", f"{row.name} to sleep")  # type: ignore[misc]
        for _ in range(LOOKS):
            _, report, _ = read_unmoved(running.pid)
            assert all(thread.stack for thread in report.threads)
        assert set(running.ended().values()) == {0}


@pytest.mark.parametrize("burns", [False, True], ids=["", "burning"])
def test_at_most_one_call_of_each_thread_ends_when_all_run(burns: bool, tmp_path: Path) -> None:
    with program(tmp_path, 1, burns) as running:
        for _ in range(LOOKS):
            before = running.ended()
            with contextlib.suppress(GdbextError):
                read_unmoved(running.pid)
            running.wait_for_rounds()
            ended = {name: count - before[name] for name, count in running.ended().items()}
            assert max(ended.values()) <= 1, ended
