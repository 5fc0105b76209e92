"""What goes wrong is told in one line that says what to do next, and GDB ends with a failure."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.support import gdb_session, samples
from tests.support.gdb_session import Result
from tests.support.report import Report
from tests.support.samples import Sample

COMMANDS = (
    "gil-holder",
    "rwlock-owner",
    "rwlock-owner 0x1000",
    "lock-owner",
    "py-threads-locks",
    "py-deadlocks",
    "py-mixed-bt",
)


def check_failure(session: Result) -> str:
    """The last command failed as it should; its one line."""
    command = session.commands[-1].split()[0]
    assert session.status != 0
    assert "Traceback" not in session.stderr
    assert "Python Exception" not in session.stderr
    assert "Error occurred in Python" not in session.stderr
    (line,) = session.error_lines(command)
    assert re.fullmatch(rf"{command}: .+; .+", line), "what happened; what to do next"
    assert session.outputs[-1] == "", "a failure prints no part of an answer"
    return line


@pytest.mark.parametrize("options", ["", " --json"])
@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_process(command: str, options: str) -> None:
    session = gdb_session.batch([], [command + options])
    line = check_failure(session)
    assert session.stderr.strip() == line


@pytest.mark.parametrize("command", COMMANDS)
def test_program_that_has_not_started(command: str) -> None:
    session = gdb_session.batch([samples.build("abba")], [command])
    assert session.stderr.strip() == check_failure(session)


@pytest.mark.parametrize("variant", ["future", "random", "loop"])
def test_python_that_is_not_known(variant: str, tmp_path: Path) -> None:
    """The native part is shown, the rest is refused in one line, and nothing takes long."""
    with samples.impostor(variant, tmp_path) as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], ["py-threads-locks --json"], timeout=10)
        verdict = gdb_session.batch(["-p", str(sample.pid)], ["py-deadlocks"], timeout=10)
        holder = gdb_session.batch(["-p", str(sample.pid)], ["gil-holder"], timeout=10)
    assert session.status == 1
    (line,) = session.error_lines("py-threads-locks")
    assert "Python" in line
    report = Report(session.document(), sample.truth)
    assert report.document["runtimes"] == []
    report.check_lock("mutex")
    report.check_lock("end")
    assert report.edges() == set(sample.truth.deadlock)
    assert verdict.status == 1
    assert "Deadlock 1" in verdict.outputs[0]
    assert "Python" in check_failure(holder)


def test_python_that_is_not_initialised(tmp_path: Path) -> None:
    with samples.impostor("zero", tmp_path) as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], ["py-threads-locks --json"])
    (runtime,) = session.document()["runtimes"]
    assert runtime["interpreters"] == []
    assert "not initialised" in str(session.document()["problems"])
    assert session.status == 0


def test_program_without_python(native: Sample) -> None:
    session = gdb_session.batch(["-p", str(native.pid)], ["gil-holder"])
    assert "python" in check_failure(session).lower()
    session = gdb_session.batch(["-p", str(native.pid)], ["py-threads-locks --json"])
    assert session.status == 0
    assert session.document()["runtimes"] == []
    assert len(session.document()["threads"]) == 3


@pytest.mark.parametrize(
    "argument",
    [
        "&not_a_lock",
        "&main",
        "0x10",
        "0",
        "-1",
        "0xffffffffffffff00",
        "nonesuch_symbol",
        "(((",
        "1 +",
        '"table"',
        "table_lock table_lock",
        "--nonesuch",
    ],
)
@pytest.mark.parametrize("command", ["rwlock-owner", "lock-owner"])
def test_bad_address(native: Sample, command: str, argument: str) -> None:
    session = gdb_session.batch(["-p", str(native.pid)], [f"{command} {argument}"])
    check_failure(session)


@pytest.mark.parametrize(
    "command",
    [
        "gil-holder --nonesuch",
        "gil-holder 1",
        "py-deadlocks now",
        "py-threads-locks --stacks=sideways",
        "py-threads-locks --stacks",
        "py-threads-locks 999",
        "py-threads-locks --dot /nonexistent/folder/file.dot",
    ],
)
def test_bad_options(native: Sample, command: str) -> None:
    check_failure(gdb_session.batch(["-p", str(native.pid)], [command]))


def test_gdb_goes_on_after_a_failure(native: Sample) -> None:
    """Only the last command decides on the exit status, so a script can go on after a failure."""
    session = gdb_session.batch(["-p", str(native.pid)], ["rwlock-owner 0x10", "py-deadlocks --json"])
    assert len(session.error_lines("rwlock-owner")) == 1
    assert session.status == 0
    assert len(session.document(1)["deadlocks"]) == 1


def test_core_without_its_executable(kernel_core: tuple[Path, Sample]) -> None:
    """GDB then knows no symbols and no libraries: what is known is shown, what is missing is said, and it fails."""
    core, sample = kernel_core
    session = gdb_session.batch(["-c", core], ["py-threads-locks --json"])
    assert session.status == 1
    (line,) = session.error_lines("py-threads-locks")
    assert "executable" in line
    document = session.document()
    assert "executable" in str(document["problems"])
    assert {row["lwp"] for row in document["threads"]} == {thread.tid for thread in sample.truth.threads.values()}
    assert {row["syscall"] for row in document["threads"]} == {"futex"}
    assert document["deadlocks"] == []


def test_no_verdict_without_the_executable(kernel_core: tuple[Path, Sample]) -> None:
    """"No deadlock" would be a lie."""
    core, _ = kernel_core
    session = gdb_session.batch(["-c", core], ["py-deadlocks"])
    assert session.status == 1
    assert "cannot be determined" in session.outputs[0]
    assert "No deadlock" not in session.outputs[0]


@pytest.mark.parametrize("seed", range(6))
def test_truncated_core(kernel_core: tuple[Path, Sample], seed: int, tmp_path: Path) -> None:
    """A disk that was full leaves half a core: half an answer, or one line, but no deadlock that is none."""
    core, sample = kernel_core
    whole = core.read_bytes()
    truncated = tmp_path / "core"
    truncated.write_bytes(whole[: random.Random(seed).randrange(4096, len(whole))])
    session = gdb_session.batch([sample.executable, truncated], ["py-threads-locks --json"])
    if session.status != 0:
        check_failure(session)
        return
    document = session.document()
    report = Report(document, sample.truth)
    assert document["problems"] or report.edges() == set(sample.truth.deadlock)
    assert report.edges() <= set(sample.truth.deadlock)


def test_gil_of_a_truncated_core(kernel_core: tuple[Path, Sample], tmp_path: Path) -> None:
    """Which libraries are loaded is not in it: whether there is a Python is not known."""
    core, sample = kernel_core
    truncated = tmp_path / "core"
    truncated.write_bytes(core.read_bytes()[: core.stat().st_size // 2])
    session = gdb_session.batch([sample.executable, truncated], ["gil-holder"])
    assert session.status == 1
    (line,) = session.error_lines("gil-holder")
    assert "the core is truncated" in line
    assert "no Python was found" not in line


def test_a_file_that_is_no_core(tmp_path: Path) -> None:
    junk = tmp_path / "core"
    junk.write_bytes(random.Random(1).randbytes(65536))
    check_failure(gdb_session.batch(["-c", junk], ["py-deadlocks"]))
