"""Healthy programs: no deadlock is reported, and the program continues after a snapshot."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.support import combinations, gdb_session, interpreters, samples
from tests.support.report import Report
from tests.support.samples import Sample, wait_until

# each snapshot catches threads at another moment; tests/precision takes many more
SNAPSHOTS = 3 if combinations.LONG else 1
# symbols affect only native frames, which the stripped copies of the main versions show
NAMES = interpreters.NAMES if combinations.LONG else (
    *interpreters.MAIN_NAMES, *interpreters.FURTHER_VERSIONS, *interpreters.FREE_THREADED_NAMES)


def progress(sample: Sample) -> tuple[int, ...]:
    """The rounds of computing and the turns taken so far."""
    return struct.unpack("<QQ", (sample.directory / "progress").read_bytes())


def wait_for_progress(sample: Sample) -> None:
    """Wait until both counters have increased."""
    before = progress(sample)
    wait_until(lambda: all(now > then for now, then in zip(progress(sample), before)), "the program to make progress")


@pytest.mark.parametrize("name", NAMES)
def test_healthy_program_is_not_deadlocked(name: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    with samples.healthy(python, tmp_path) as sample:
        tids = sample.tids()
        for _ in range(SNAPSHOTS):
            wait_for_progress(sample)
            session = gdb_session.batch(
                ["-p", str(sample.pid)],
                ["py-threads-locks --json", "py-deadlocks --json", "py-deadlocks"],
                symbols=symbols,
            )
            assert session.status == 0
            assert session.document(0)["deadlocks"] == []
            assert session.document(1)["deadlocks"] == []
            assert "DEADLOCK" not in session.outputs[2]

            report = Report(session.document(0), sample.truth)
            assert set(report.roles.values()) == set(sample.truth.threads)
            assert report.lock_name(report.thread("writer")["waits"]["lock"]) == "table"
            table = report.lock("table")
            assert table["state"] == "read-locked"
            assert {report.role(waiter["thread"]) for waiter in table["waiters"]} == {"writer"}
            assert not sample.is_stopped()
        assert sample.tids() == tids

        # the reader releases its lock on request; all other threads then finish
        sample.send("x")
        last = json.loads(sample.read_line())
        assert last["finished"]
        assert sample.process.wait(timeout=samples.PATIENCE) == 0
