"""A deadlock over a barrier, which counts the missing threads but does not record them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import cores, differential, samples
from tests.support.report import Report


@pytest.mark.parametrize("target", ["live", "gcore", "kernel-core"])
@pytest.mark.parametrize("stripped", [False, True], ids=["symbols", "stripped"])
def test_thread_missing_at_a_barrier_is_in_the_deadlock(stripped: bool, target: str, tmp_path: Path) -> None:
    with samples.gather(tmp_path, stripped=stripped) as sample:
        where: list[str | Path] = ["-p", str(sample.pid)]
        if target != "live":
            where = [sample.executable, cores.gdb_core(sample) if target == "gcore" else cores.kernel_core(sample)]
        session = differential.batch(sample, where, [differential.COMMAND, "py-deadlocks"], symbols=not stripped)
    assert session.status == 0
    report = Report(session.document(0), sample.truth)
    for name in sample.truth.locks:
        report.check_lock(name)
    assert report.edges() == set(sample.truth.deadlock)
    (deadlock,) = report.document["deadlocks"]
    assert deadlock["evidence"] == "inferred"
    assert [report.role(number) for number in deadlock["stuck_behind"]] == ["main"]
    assert "1 of 2 arrived, not arrived: thread" in session.outputs[1]
    if target != "live":
        where[1].unlink()  # type: ignore[union-attr]
