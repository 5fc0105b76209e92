"""`py-deadlocks --confirm`, which takes two snapshots, and the convenience functions for expressions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import cores, gdb_session, interpreters, samples
from tests.support.gdb_session import Interactive
from tests.support.report import Report
from tests.support.samples import Sample, wait_until

#: Numbers of the system calls in which Python sleeps (x86-64): select up to 3.10, clock_nanosleep.
SLEEPS = ("23", "270", "230")


def run_confirm(sample: Sample, *options: str) -> gdb_session.Result:
    commands = ["thread 2", f"py-deadlocks --confirm 0.3 {' '.join(options)}", "thread", "py-threads-locks --json"]
    return gdb_session.batch(["-p", str(sample.pid)], commands)


@pytest.mark.parametrize("variant", samples.ABBA_VARIANTS)
def test_deadlock_is_confirmed(variant: str, tmp_path: Path) -> None:
    with samples.abba(variant, tmp_path) as sample:
        session = run_confirm(sample, "--json")
        assert not sample.is_stopped()
    assert session.status == 0
    roles = Report(session.document(3), sample.truth).roles
    report = Report(session.document(1), sample.truth, roles)
    assert report.edges() == set(sample.truth.deadlock)
    (note,) = report.document["notes"]
    assert "two snapshots, 0.3 s apart" in note
    assert "thread is 2 " in session.outputs[2], "the selected thread is as it was"


def test_deadlock_with_the_gil_is_confirmed(tmp_path: Path) -> None:
    """A thread waiting for the GIL wakes up every 5 ms to retry."""
    python, _ = interpreters.use(interpreters.ANY)
    with samples.rapids(python, "rwlock", tmp_path, still=False) as sample:
        session = run_confirm(sample)
    assert session.status == 0
    assert "DEADLOCK: 2 threads wait for each other" in session.outputs[1]
    assert "was paused for" in session.outputs[1]


def test_healthy_program_continues(tmp_path: Path) -> None:
    python, _ = interpreters.use(interpreters.ANY)
    with samples.healthy(python, tmp_path) as sample:
        session = run_confirm(sample, "--json")
        assert session.document(1)["deadlocks"] == []
        assert not sample.is_stopped()
        sample.send("x")
        assert sample.process.wait(timeout=samples.PATIENCE) == 0


def test_core_is_not_confirmed(tmp_path: Path) -> None:
    with samples.abba("mutex", tmp_path) as sample:
        core = cores.gdb_core(sample)
    session = gdb_session.batch([sample.executable, core], ["py-deadlocks --confirm"])
    assert session.status != 0
    (line,) = session.error_lines("py-deadlocks")
    assert "needs a live process" in line
    core.unlink()


def test_program_continues_when_interrupted_between_snapshots(tmp_path: Path) -> None:
    with samples.abba("mutex", tmp_path) as sample, Interactive(
            ["-p", str(sample.pid)], home=tmp_path, cwd=tmp_path) as gdb:
        gdb.start("py-deadlocks --confirm 60")
        wait_until(lambda: not sample.is_stopped(), "GDB to let the program go")
        call = Path(f"/proc/{gdb.process.pid}/syscall")
        wait_until(lambda: call.read_text().split()[0] in SLEEPS, "GDB to sleep")
        gdb.interrupt()
        assert "interrupted between the two snapshots" in gdb.transcript
        assert not sample.is_stopped()
        assert "attach" in gdb.command("py-deadlocks"), "GDB has no process now"


def test_convenience_functions(tmp_path: Path) -> None:
    python, _ = interpreters.use(interpreters.ANY)
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        (lock,) = (lock.address for lock in sample.truth.locks.values() if lock.address)
        commands = ["py-threads-locks --json", "output $_gil_holder()", f"output $_lock_owner({lock:#x})",
                    "output $_lock_owner($sp)", 'eval "thread %d", $_gil_holder()', "output $_lock_owner(0)"]
        session = gdb_session.batch(["-p", str(sample.pid)], commands)
    report = Report(session.document(0), sample.truth)
    gil = report.gil()
    (held,) = (row for row in report.document["locks"] if row["kind"] == "rwlock")
    assert session.outputs[1].strip() == str(gil["holder"])
    assert session.outputs[2].strip() == str(held["holders"][0]["thread"])
    assert session.outputs[3].strip() == "0"
    assert f"Switching to thread {gil['holder']} " in session.outputs[4]
    assert "$_lock_owner: cannot read" in session.stderr
