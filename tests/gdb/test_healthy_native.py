"""No deadlock is reported of a native program under load, whenever it is looked at, and it goes on after that."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import combinations, cores, gdb_session, samples
from tests.support.samples import Sample, wait_until

# the more looks, the more moments in which threads are caught
LOOKS, LOOKS_AT_CORES = (6, 2) if combinations.LONG else (3, 1)


def rounds(sample: Sample) -> tuple[int, ...]:
    """How many rounds each load has done."""
    data = (sample.directory / "progress").read_bytes()
    return struct.unpack(f"<{len(data) // 8}Q", data)


def wait_for_progress(sample: Sample) -> None:
    """Wait until each load has got on."""
    before = rounds(sample)
    wait_until(lambda: all(now > then for now, then in zip(rounds(sample), before)), "every load to make progress")


def look(where: Sequence[str | Path], symbols: bool) -> set[str]:
    """Find nothing wrong, and tell on which kinds of locks somebody waits."""
    session = gdb_session.batch(
        where, ["py-threads-locks --json", "py-deadlocks --json", "py-deadlocks"], symbols=symbols
    )
    assert session.status == 0
    assert "Traceback" not in session.stderr
    document = session.document(0)
    assert document["deadlocks"] == []
    assert session.document(1)["deadlocks"] == []
    assert "No deadlock" in session.outputs[2]
    # whoever has a lock is there: nobody ends here before it has let go
    assert [lock for lock in document["locks"] if lock["orphan"]] == []
    return {lock["kind"] for lock in document["locks"] if lock["waiters"]}


@pytest.mark.parametrize("build", ["symbols", "stripped"])
def test_healthy_program_is_not_deadlocked(build: str, tmp_path: Path) -> None:
    symbols = build == "symbols"
    with samples.healthy_native(tmp_path, stripped=not symbols) as sample:
        caught: set[str] = set()
        for _ in range(LOOKS):
            wait_for_progress(sample)
            caught |= look(["-p", str(sample.pid)], symbols)
        # GDB stops one thread after the other, and a core cannot be looked at twice to see what has moved
        for _ in range(LOOKS_AT_CORES):
            wait_for_progress(sample)
            core = cores.gdb_core(sample)
            caught |= look([sample.executable, core], symbols)
            core.unlink()
        assert {"mutex", "rwlock", "condvar"} <= caught, "all these looks saw nobody wait"

        wait_for_progress(sample)
        sample.send("x")
        assert json.loads(sample.read_line())["finished"]
        assert sample.process.wait(timeout=samples.PATIENCE) == 0
