"""The launcher's side of a GDB in batch mode, with a shell script in place of GDB."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext.launcher.snapshots import by_gdb
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.snapshot import Snapshot, take_snapshot
from gdbext.launcher.status import FOUND, NO_ANSWER, NO_GDB
from gdbext.schema.shapes import PARTS_OF_REPORT
from tests.support.documents import as_json
from tests.support.fake_report import gil_deadlock
from tests.support.samples import wait_until

ATTACHED = "echo '{\"attaching\": 10.25}'; echo '{\"attached\": 10.5}'"
DETACHED = "echo '{\"detached\": 11.0}'"


@pytest.fixture
def pid() -> Iterator[int]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "document"
    path.write_text(as_json(gil_deadlock(), PARTS_OF_REPORT.keys()) + "\n")
    return path


def take(pid: int, folder: Path, script: str, timeout: float = 60.0, max_pause: float = 10.0) -> Snapshot:
    gdb = folder / "gdb"
    gdb.write_text(f"#!/bin/sh\n{script}\n")
    gdb.chmod(0o755)
    return take_snapshot(Target(pid=pid), Options(gdb=str(gdb), timeout=timeout, max_pause=max_pause))


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_answer_is_made_of_the_document_with_the_time_of_the_pause(pid: int, document: Path, tmp_path: Path) -> None:
    seen = take(pid, tmp_path, f"{ATTACHED}; echo 'a line of GDB'; cat {document}; {DETACHED}")
    assert (seen.status, seen.problem, seen.stopped) == (FOUND, None, 0.75)
    assert "DEADLOCK: 2 threads wait for each other" in seen.text
    assert seen.document is not None
    assert seen.document["target"].pop("paused") == 0.75
    made = json.loads(document.read_text())
    del made["target"]["paused"]
    assert seen.document == made
    assert str(seen.dot).startswith("digraph gdbext {")


def test_error_of_the_command_is_the_problem_of_the_report(pid: int, document: Path, tmp_path: Path) -> None:
    seen = take(pid, tmp_path, f"{ATTACHED}; cat {document}; echo 'warning: x' >&2; "
                               f"echo 'py-threads-locks: a part; is missing; name it' >&2; {DETACHED}; exit 1")
    assert (seen.problem, seen.hint, seen.status) == ("a part; is missing", "name it", FOUND)


def test_commands_are_those_that_a_person_types(pid: int, tmp_path: Path) -> None:
    take(pid, tmp_path, f'for word; do echo "$word"; done > {tmp_path}/words; '
                        "echo 'gdbext attach: no' >&2")
    words = (tmp_path / "words").read_text().splitlines()
    assert words[:2] == ["-nx", "-batch"]
    commands = [command for option, command in zip(words[2::2], words[3::2]) if option == "-ex"]
    assert commands[0].startswith(f"python import gdbext.debugger.attach; gdbext.debugger.attach.process({pid}, ")
    assert commands[1:] == ["py-threads-locks --json --tasks", "python gdbext.debugger.attach.detach()"]


def test_gdb_that_does_not_attach_in_time_is_killed(pid: int, tmp_path: Path) -> None:
    seen = take(pid, tmp_path, "trap '' TERM; echo '{\"attaching\": 0}'; exec sleep 1000", max_pause=1.0)
    assert (seen.status, seen.document) == (NO_ANSWER, None)
    assert seen.problem == f"GDB did not attach to process {pid} within 1 s"
    assert seen.stopped is not None


def test_process_continues_after_gdb_was_killed(pid: int, tmp_path: Path) -> None:
    seen = take(pid, tmp_path, f"{ATTACHED}; kill -STOP {pid}; kill -KILL $$")
    assert (seen.status, seen.document) == (NO_ANSWER, None)
    assert seen.stopped is not None
    wait_until(lambda: state(pid) != "T", "it runs again")


def test_process_that_was_stopped_before_stays_stopped(pid: int, tmp_path: Path) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state(pid) == "T", "it is stopped")
    take(pid, tmp_path, f"{ATTACHED}; kill -KILL $$")
    assert state(pid) == "T"


def test_gdb_that_is_late_gets_sigterm_and_time_to_detach(pid: int, tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_gdb, "_GRACE", 0.1)
    seen = take(pid, tmp_path, f"trap \"{DETACHED.replace(chr(34), chr(92) + chr(34))}; exit\" TERM; {ATTACHED}; "
                               "while :; do sleep 0.05; done", max_pause=1.0)
    assert (seen.status, seen.stopped) == (NO_ANSWER, 0.75)
    assert seen.problem == "the process was resumed before it was read: the time was over"


def test_reason_why_gdb_cannot_attach_is_the_problem(pid: int, tmp_path: Path) -> None:
    seen = take(pid, tmp_path, "echo '{\"attaching\": 1}'; echo 'gdbext attach: cannot attach to it: busy' >&2; exit 3")
    assert (seen.problem, seen.status, seen.stopped) == ("cannot attach to it: busy", NO_ANSWER, None)


def test_file_that_is_no_gdb_is_named(pid: int, tmp_path: Path) -> None:
    seen = take(pid, tmp_path, "echo 'who am I?'")
    assert seen.status == NO_GDB
    assert "is not a GDB: who am I?" in (seen.problem or "")
