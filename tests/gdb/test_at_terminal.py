"""The console script at a terminal: colours, the pager, and the greeting of `attach`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pexpect
import pytest

from tests.support import gdb_session, samples
from tests.support.interpreters import CHECKOUT
from tests.support.samples import Sample

#: A pager that shows that it ran.
MARKING = {"PAGER": "echo paged"}
RED = "\x1b[1;31m"


@pytest.fixture
def deadlocked(tmp_path: Path) -> Iterator[Sample]:
    with samples.abba("rwlock", tmp_path / "sample") as sample:
        yield sample


def at_terminal(*arguments: str, lines: int = 200,
                variables: Mapping[str, str] | None = None) -> pexpect.spawn[str]:
    """Run the launcher at a terminal of 100 columns."""
    kept = {name: value for name, value in os.environ.items()
            if name not in ("PAGER", "LESS", "NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED")}
    verb, *rest = arguments
    return pexpect.spawn(sys.executable, ["-m", "gdbext", verb, "--gdb", gdb_session.executable(), *rest], cwd="/",
                         env={**kept, "TERM": "xterm", "PYTHONPATH": str(CHECKOUT), **(variables or {})},
                         encoding="utf-8", codec_errors="backslashreplace", timeout=120, dimensions=(lines, 100))


def ended(session: pexpect.spawn[str]) -> tuple[str, int | None]:
    """The rest of the output and the exit status of a session."""
    session.expect(pexpect.EOF)
    text = str(session.before).replace("\r\n", "\n")
    session.close()
    return text, session.exitstatus


def is_traced(sample: Sample) -> bool:
    return any(sample.status(tid, "TracerPid") != "0" for tid in sample.tids())


def test_colours_at_a_terminal(deadlocked: Sample) -> None:
    pid = str(deadlocked.pid)
    text, status = ended(at_terminal("report", pid))
    assert status == 1
    assert f"{RED}Deadlock 1: 2 threads wait for each other" in text
    for arguments, variables in (["--color=never"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"}):
        text, status = ended(at_terminal("report", pid, *arguments, variables=variables))
        assert status == 1
        assert "\x1b" not in text
        assert "Deadlock 1: 2 threads wait for each other" in text


def test_pager_gets_the_report_of_a_process_that_runs_again(deadlocked: Sample) -> None:
    session = at_terminal("report", str(deadlocked.pid), lines=10,
                          variables={
        "PAGER": "echo paged; read -r line; echo \"first: $line\"; read answer </dev/tty; exit 9"})
    session.expect("paged\r\n")
    assert not is_traced(deadlocked)
    assert not deadlocked.is_stopped()
    session.expect("first: .+\r\n")
    session.sendline("q")
    text, status = ended(session)
    assert status == 1
    assert re.search(rf"gdbext report: process {deadlocked.pid} was paused for \d\.\d\d s\n$", text)


def test_report_without_pager(deadlocked: Sample) -> None:
    for arguments, lines in (["--no-pager"], 10), ([], 200):
        text, status = ended(at_terminal("report", str(deadlocked.pid), *arguments, lines=lines, variables=MARKING))
        assert status == 1
        assert "Deadlock 1" in text
        assert "paged" not in text


def test_json_is_never_paged(deadlocked: Sample) -> None:
    text, status = ended(at_terminal("report", str(deadlocked.pid), "--json", lines=10, variables=MARKING))
    assert status == 1
    assert text.startswith('{"schema": "gdbext/1"')
