"""A Python that is not initialised, or that is finalising or finalised: one line in the report, and no deadlock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import differential, embedding, gdb_session, interpreters, roots, samples, scenarios
from tests.support.report import Report
from tests.support.samples import Sample, wait_until

COMMANDS = ["py-threads-locks --json", "py-deadlocks --json", "py-deadlocks", "gil-holder --json", "gil-holder"]


def run_commands(sample: Sample, symbols: bool, gdb: Sequence[str] = ()) -> tuple[gdb_session.Result, Report]:
    """Run every command on the live program."""
    where = ["-p", str(sample.pid)]
    if gdb:
        session = gdb_session.batch(where, COMMANDS, symbols=symbols, gdb=gdb, directory=sample.directory)
    else:
        session = differential.batch(sample, where, COMMANDS, symbols=symbols, directory=sample.directory)
    assert "Traceback" not in session.stderr
    return session, Report(session.document(0), sample.truth)


@pytest.mark.parametrize("name", scenarios.NOT_RUNNING)
@pytest.mark.parametrize("variant", ["linked", "loaded", "finalised"])
def test_python_not_running(variant: str, name: str, tmp_path: Path) -> None:
    with embedding.state(name, variant, tmp_path) as sample:
        session, report = run_commands(sample, interpreters.use(name)[1])
    assert session.status == 0
    (runtime,) = report.document["runtimes"]
    assert runtime["interpreters"] == []
    (problem,) = report.document["problems"]
    assert problem["what"] == "not applicable"
    assert "not initialised" in problem["why"]
    assert "finalised" in problem["why"]
    assert report.document["deadlocks"] == []
    assert session.document(1)["deadlocks"] == []
    verdict = session.outputs[2].partition("\n\n")[2]
    assert verdict.startswith("NOTHING WRONG FOUND: the only thread waits to read from fd 0, ")
    assert "not initialised" in session.outputs[4], "in the text too"
    row = report.thread("main")
    assert (row["tstate"], row["python_state"], row["syscall"]) == (None, None, "read")


def settled(sample: Sample) -> bool:
    """Whether the daemon thread is in its final state: it sleeps, but not in read, or it has ended."""
    tid = sample.truth.threads["daemon"].tid
    try:
        return sample.status(tid, "State").startswith("S") and not sample.in_system_call(tid, "read")
    except (FileNotFoundError, ProcessLookupError):
        return True


def check_finalising(sample: Sample, session: gdb_session.Result, report: Report) -> None:
    """Check for the GIL's holder, a note about the state of Python, and no deadlock."""
    assert session.status == 0
    assert report.document["deadlocks"] == []
    assert session.document(1)["deadlocks"] == []
    assert "DEADLOCK" not in session.outputs[2]
    gil = report.gil()
    assert gil["state"] == "held"
    assert report.role(gil["holder"]) == "main"
    # a daemon thread that still exists waits for the GIL, or for nothing
    assert {report.role(number) for number in gil["waiters"]} <= {"daemon"}
    assert report.python_stack("main") == sample.truth.threads["main"].stack
    document = report.document
    assert "finalis" in str([document["problems"], document.get("notes")]), "the report says that Python finalises"
    assert "finalis" in session.outputs[2]


@pytest.mark.parametrize("name", scenarios.NOT_RUNNING)
def test_native_thread_while_python_finalises(name: str, tmp_path: Path) -> None:
    """A native thread requests the GIL: up to 3.8 it waits for it, since 3.9 it ends."""
    with embedding.state(name, "finalising", tmp_path) as sample:
        wait_until(lambda: settled(sample), "the daemon thread to wait or end")
        session, report = run_commands(sample, interpreters.use(name)[1])
    check_finalising(sample, session, report)


@pytest.mark.parametrize("name", scenarios.ENDING)
def test_daemon_thread_while_python_finalises(name: str, tmp_path: Path) -> None:
    """A Python daemon thread requests the GIL: since a late 3.13 it is put to sleep forever, in pause()."""
    gdb: Sequence[str] = ()
    if name in interpreters.ROOT_PYTHONS:
        root = roots.use_python(name)
        python, symbols, place, gdb = root.python, False, root.place, root.gdb
    else:
        python, symbols = interpreters.use(name)
        place = samples.HERE
    with samples.finalising(python, tmp_path, place=place) as sample:
        wait_until(lambda: settled(sample), "the daemon thread to wait, sleep or end")
        session, report = run_commands(sample, symbols, gdb)
    check_finalising(sample, session, report)
    for row in report.document["threads"]:
        if row["syscall"] == "pause":
            assert (row["waits"], row["status"]) == (None, "blocked")


@pytest.mark.parametrize("name", scenarios.NOT_RUNNING)
def test_python_initialised_twice(name: str, tmp_path: Path) -> None:
    with embedding.state(name, "again", tmp_path) as sample:
        session, report = run_commands(sample, interpreters.use(name)[1])
    assert session.status == 0
    assert report.document["problems"] == []
    for lock in sample.truth.locks:
        report.check_lock(lock)
    assert report.edges() == set(sample.truth.deadlock)
    assert "\nDEADLOCK: " in session.outputs[2]
