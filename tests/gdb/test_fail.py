"""`py-deadlocks --fail`: the status of a GDB in batch mode, and an error elsewhere."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cores, interpreters, samples
from tests.support.gdb_session import Interactive, batch, violations
from tests.support.samples import Sample


@pytest.fixture
def deadlocked(tmp_path: Path) -> Iterator[Sample]:
    with samples.abba("mutex", tmp_path / "sample") as sample:
        yield sample


@pytest.mark.parametrize("options", ["", "--json", "--confirm 0.2"])
def test_deadlock_ends_gdb_with_status_1_after_the_report(options: str, deadlocked: Sample) -> None:
    result = batch(["-p", str(deadlocked.pid)], [f"py-deadlocks --fail {options}", "echo reached"])
    assert result.status == 1
    assert "Quit anyway" not in result.stdout
    (report,) = result.outputs
    if options == "--json":
        assert violations(json.loads(report)) == []
    else:
        assert "\nDEADLOCK: 2 threads wait for each other; 1 more is stuck behind them.\n" in report
    assert not deadlocked.is_stopped()
    assert all(deadlocked.status(tid, "TracerPid") == "0" for tid in deadlocked.tids())


def test_commands_after_a_healthy_process_are_run() -> None:
    python, _ = interpreters.use(interpreters.ANY)
    with samples.idle(python) as pid:
        result = batch(["-p", str(pid)], ["py-deadlocks --fail", "echo reached"])
    assert result.status == 0
    assert "DEADLOCK" not in result.outputs[0]
    assert result.outputs[1] == "reached"


def test_no_verdict_ends_gdb_with_status_3(tmp_path: Path) -> None:
    program = tmp_path / "own-abba"
    shutil.copy(samples.build("abba"), program)
    with samples.running([program, "mutex"], tmp_path / "run") as sample:
        core = cores.gdb_core(sample)
    program.unlink()
    result = batch(["-c", core], ["py-deadlocks --fail", "echo reached"])
    assert result.status == 3
    assert "UNKNOWN: whether there is a deadlock cannot be determined" in result.outputs[0]
    assert len(result.outputs) == 1


@pytest.mark.parametrize(("command", "complaint"), [
    ("py-deadlocks --fail", "there is no process and no core"),
    ("py-deadlocks --fail --nonesuch", "unknown option --nonesuch")])
def test_error_ends_gdb_with_status_3(command: str, complaint: str) -> None:
    result = batch([], [command, "echo reached"])
    assert result.status == 3
    assert f"py-deadlocks: {complaint}; " in result.stderr
    assert len(result.outputs) == 1


def test_batch_mode_is_that_of_gdb_and_not_of_the_program(deadlocked: Sample, tmp_path: Path) -> None:
    """GDB in an interactive session shows an error of one line, and stays."""
    with Interactive(["-p", str(deadlocked.pid)], home=tmp_path, cwd=tmp_path) as gdb:
        text = gdb.command("py-deadlocks --fail")
        assert "\nDEADLOCK: 2 threads wait for each other; 1 more is stuck behind them.\n" in text.replace("\r", "")
        assert text.splitlines()[-1] == "py-deadlocks: the verdict is DEADLOCK; --fail makes this an error"
        assert "= 2" in gdb.command("print 1 + 1")
    with Interactive(["--args", "/bin/true", "-batch"], home=tmp_path, cwd=tmp_path) as gdb:
        assert gdb.command("py-deadlocks --fail").startswith("py-deadlocks: there is no process and no core; ")
        assert "= 2" in gdb.command("print 1 + 1")
    assert os.path.exists(f"/proc/{deadlocked.pid}")
