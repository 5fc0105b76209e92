"""A Python that is not, not yet or no longer running is told in a line, and is no deadlock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import embedding, gdb_session, interpreters, roots, samples, scenarios
from tests.support.report import Report
from tests.support.samples import Sample, wait_until

COMMANDS = ["py-threads-locks --json", "py-deadlocks --json", "py-deadlocks", "gil-holder --json", "gil-holder"]


def look_at(sample: Sample, symbols: bool, gdb: Sequence[str] = ()) -> tuple[gdb_session.Result, Report]:
    """Every command, on the running program."""
    session = gdb_session.batch(
        ["-p", str(sample.pid)], COMMANDS, symbols=symbols, gdb=gdb, directory=sample.directory
    )
    assert "Traceback" not in session.stderr
    return session, Report(session.document(0), sample.truth)


@pytest.mark.parametrize("name", scenarios.NOT_RUNNING)
@pytest.mark.parametrize("variant", ["linked", "loaded", "finalised"])
def test_python_does_not_run(variant: str, name: str, tmp_path: Path) -> None:
    with embedding.state(name, variant, tmp_path) as sample:
        session, report = look_at(sample, interpreters.use(name)[1])
    assert session.status == 0
    (runtime,) = report.document["runtimes"]
    assert runtime["interpreters"] == []
    (problem,) = report.document["problems"]
    assert problem["what"] == "not applicable"
    assert "not initialised" in problem["why"]
    assert "finalised" in problem["why"]
    assert report.document["deadlocks"] == []
    assert session.document(1)["deadlocks"] == []
    assert "No deadlock" in session.outputs[2]
    assert "not initialised" in session.outputs[4], "in the text too"
    row = report.thread("main")
    assert (row["tstate"], row["python_state"], row["syscall"]) == (None, None, "read")


def settled(sample: Sample) -> bool:
    """Whether the daemon thread has come to where it stays: it sleeps, but not in read, or is gone."""
    tid = sample.truth.threads["daemon"].tid
    try:
        return sample.status(tid, "State").startswith("S") and not sample.in_system_call(tid, "read")
    except (FileNotFoundError, ProcessLookupError):
        return True


def check_finalising(sample: Sample, session: gdb_session.Result, report: Report) -> None:
    """No deadlock, the GIL's holder, and a word on what goes on."""
    assert session.status == 0
    assert report.document["deadlocks"] == []
    assert session.document(1)["deadlocks"] == []
    assert "No deadlock" in session.outputs[2]
    gil = report.gil()
    assert gil["state"] == "held"
    assert report.role(gil["holder"]) == "main"
    # if the daemon thread is still there it waits for the GIL, or for nothing
    assert {report.role(number) for number in gil["waiters"]} <= {"daemon"}
    assert report.python_stack("main") == sample.truth.threads["main"].stack
    document = report.document
    assert "finalis" in str([document["problems"], document.get("notes")]), "it is told that Python finalises"
    assert "finalis" in session.outputs[2]


@pytest.mark.parametrize("name", scenarios.NOT_RUNNING)
def test_python_finalises(name: str, tmp_path: Path) -> None:
    """A native thread wants the GIL: it waits for it up to 3.8, has ended from 3.9 on."""
    with embedding.state(name, "finalising", tmp_path) as sample:
        wait_until(lambda: settled(sample), "the daemon thread to wait or end")
        session, report = look_at(sample, interpreters.use(name)[1])
    check_finalising(sample, session, report)


@pytest.mark.parametrize("name", scenarios.ENDING)
def test_program_ends(name: str, tmp_path: Path) -> None:
    """A daemon thread of Python's own wants the GIL: late 3.13s and later put it to sleep for ever, with pause()."""
    gdb: Sequence[str] = ()
    if name in interpreters.ROOT_PYTHONS:
        root = roots.use_python(name)
        python, symbols, place, gdb = root.python, False, root.place, root.gdb
    else:
        python, symbols = interpreters.use(name)
        place = samples.HERE
    with samples.finalising(python, tmp_path, place=place) as sample:
        wait_until(lambda: settled(sample), "the daemon thread to wait, sleep or end")
        session, report = look_at(sample, symbols, gdb)
    check_finalising(sample, session, report)
    for row in report.document["threads"]:
        if row["syscall"] == "pause":
            assert (row["waits"], row["status"]) == (None, "blocked")


@pytest.mark.parametrize("name", scenarios.NOT_RUNNING)
def test_python_initialised_twice(name: str, tmp_path: Path) -> None:
    with embedding.state(name, "again", tmp_path) as sample:
        session, report = look_at(sample, interpreters.use(name)[1])
    assert session.status == 0
    assert report.document["problems"] == []
    for lock in sample.truth.locks:
        report.check_lock(lock)
    assert report.edges() == set(sample.truth.deadlock)
    assert "Deadlock 1" in session.outputs[2]
