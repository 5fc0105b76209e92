"""A native program under load: no snapshot shows a deadlock, and the program continues afterwards."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import combinations, cores, gdb_session, samples
from tests.support.samples import Sample, wait_until

# each snapshot catches threads at another moment
SNAPSHOTS, CORE_SNAPSHOTS = (6, 2) if combinations.LONG else (3, 1)


def rounds(sample: Sample) -> tuple[int, ...]:
    """The number of rounds that each load has done."""
    data = (sample.directory / "progress").read_bytes()
    return struct.unpack(f"<{len(data) // 8}Q", data)


def wait_for_progress(sample: Sample) -> None:
    """Wait until each load has made progress."""
    before = rounds(sample)
    wait_until(lambda: all(now > then for now, then in zip(rounds(sample), before)), "every load to make progress")


def check_snapshot(where: Sequence[str | Path], symbols: bool) -> set[str]:
    """Check that a snapshot shows no problem, and return the kinds of locks that threads wait for."""
    session = gdb_session.batch(
        where, ["py-threads-locks --json", "py-deadlocks --json", "py-deadlocks"], symbols=symbols
    )
    assert session.status == 0
    assert "Traceback" not in session.stderr
    document = session.document(0)
    assert document["deadlocks"] == []
    assert session.document(1)["deadlocks"] == []
    assert session.document(1)["verdict"]["ends_by_itself"] is not False
    assert "DEADLOCK" not in session.outputs[2]
    # every holder is alive: here a thread releases its locks before it ends
    assert [lock for lock in document["locks"] if lock["orphan"]] == []
    return {lock["kind"] for lock in document["locks"] if lock["waiters"]}


@pytest.mark.parametrize("build", ["symbols", "stripped"])
def test_healthy_program_is_not_deadlocked(build: str, tmp_path: Path) -> None:
    symbols = build == "symbols"
    with samples.healthy_native(tmp_path, stripped=not symbols) as sample:
        caught: set[str] = set()
        for _ in range(SNAPSHOTS):
            wait_for_progress(sample)
            caught |= check_snapshot(["-p", str(sample.pid)], symbols)
        # GDB stops the threads one by one, and a second snapshot of a core cannot show progress
        for _ in range(CORE_SNAPSHOTS):
            wait_for_progress(sample)
            core = cores.gdb_core(sample)
            caught |= check_snapshot([sample.executable, core], symbols)
            core.unlink()
        assert {"mutex", "rwlock", "condvar"} <= caught, "all these looks saw nobody wait"

        wait_for_progress(sample)
        sample.send("x")
        assert json.loads(sample.read_line())["finished"]
        assert sample.process.wait(timeout=samples.PATIENCE) == 0
