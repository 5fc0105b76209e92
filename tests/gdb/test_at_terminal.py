"""The console script at a terminal: colours, the pager, and the greeting of `attach`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pexpect
import pytest

from tests.support import gdb_session, samples
from tests.support.interpreters import CHECKOUT
from tests.support.patience import patience
from tests.support.samples import Sample

#: A pager that shows that it ran.
MARKING = {"PAGER": "echo paged"}
RED = "\x1b[1;31m"


@pytest.fixture
def deadlocked(tmp_path: Path) -> Iterator[Sample]:
    with samples.abba("rwlock", tmp_path / "sample") as sample:
        yield sample


def at_terminal(*arguments: str, lines: int = 200,
                variables: Mapping[str, str] | None = None, folder: Path | str = "/") -> pexpect.spawn[str]:
    """Run the launcher at a terminal of 100 columns."""
    kept = {name: value for name, value in os.environ.items()
            if name not in ("PAGER", "LESS", "NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED")}
    verb, *rest = arguments
    return pexpect.spawn(sys.executable, ["-m", "gdbext", verb, "--gdb", gdb_session.executable(), *rest],
                         cwd=str(folder), env={**kept, "TERM": "xterm", "PYTHONPATH": str(CHECKOUT),
                                               **(variables or {})},
                         encoding="utf-8", codec_errors="backslashreplace",
                         timeout=patience(120), dimensions=(lines, 100))


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
    assert re.search(rf"{re.escape(RED)}DEADLOCK\b.*2 threads wait for each other", text)
    for arguments, variables in (["--color=never"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"}):
        text, status = ended(at_terminal("report", pid, *arguments, variables=variables))
        assert status == 1
        assert "\x1b" not in text
        assert "DEADLOCK: 2 threads wait for each other" in text


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
        assert "DEADLOCK" in text
        assert "paged" not in text


def test_json_is_never_paged(deadlocked: Sample) -> None:
    text, status = ended(at_terminal("report", str(deadlocked.pid), "--json", lines=10, variables=MARKING))
    assert status == 1
    assert text.startswith('{"schema": "gdbext/1"')


# -- attach -------------------------------------------------------------------------------------------------------

NEXT = ["py-deadlocks explains it, py-threads-locks shows every thread, py-mixed-bt the selected one",
        "help gdbext lists all commands"]


def first_lines(session: pexpect.spawn[str]) -> list[str]:
    """All lines before GDB's first prompt, without colours; the session is at the prompt afterwards."""
    session.expect_exact("(gdb) ")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", str(session.before)).replace("\r\n", "\n")
    return text.splitlines()


def leave(session: pexpect.spawn[str]) -> None:
    session.sendline("quit")
    if session.expect(["y or n", pexpect.EOF]) == 0:
        session.sendline("y")
        session.expect(pexpect.EOF)
    session.close()


def test_attach_opens_with_three_lines(tmp_path: Path) -> None:
    """Scripts next to the program and in the current folder are neither run nor mentioned."""
    program = tmp_path / "own-abba"
    shutil.copy(samples.build("abba"), program)
    (tmp_path / "own-abba-gdb.py").write_text("print('run by GDB')\n")
    (tmp_path / ".gdbinit").write_text("echo run by GDB\\n\n")
    with samples.running([program, "rwlock"], tmp_path / "run") as sample:
        session = at_terminal("attach", str(sample.pid), variables={"HOME": "/nonexistent"}, folder=tmp_path)
        verdict, *others = first_lines(session)
        assert re.fullmatch(rf"process {sample.pid}: DEADLOCK: 2 threads wait for each other; 1 more .+", verdict)
        assert others == NEXT
        session.sendline("py-deadlocks")
        session.expect("DEADLOCK.*2 threads wait for each other; 1 more")
        session.expect_exact("(gdb) ")
        session.sendline("gdbext")
        session.expect_exact("Explain hangs, deadlocks and crashes")
        leave(session)
        assert not is_traced(sample)
        assert not sample.is_stopped()


def test_attach_to_a_core_opens_with_the_verdict(kernel_core: tuple[Path, Sample], tmp_path: Path) -> None:
    core, _ = kernel_core
    session = at_terminal("attach", "--core", str(core), variables={"HOME": "/nonexistent"}, folder=tmp_path)
    verdict, *others = first_lines(session)
    leave(session)
    assert verdict == f"{core}: DEADLOCK: 2 threads wait for each other"
    assert others == NEXT


def test_attach_without_a_verdict_says_why(deadlocked: Sample, tmp_path: Path) -> None:
    """Other commands of GDB work."""
    gdb = tmp_path / "gdb"
    gdb.write_text(f"#!/bin/sh\nexec {shutil.which(gdb_session.executable())} \"$@\" "
                   "-iex 'python import gdbext.snapshot; gdbext.snapshot.read_code = lambda *rest: 1 / 0'\n")
    gdb.chmod(0o755)
    session = at_terminal("attach", "--gdb", str(gdb), str(deadlocked.pid), variables={"HOME": "/nonexistent"})
    assert first_lines(session) == [
        f"process {deadlocked.pid}: could not be inspected: division by zero", *NEXT]
    session.sendline("info threads")
    session.expect_exact(f"LWP {deadlocked.pid}")
    leave(session)


def test_help_lists_every_command() -> None:
    text = gdb_session.batch([], ["help gdbext"]).outputs[0]
    listed = re.findall(r"^  (\S+)\n {6}(.+)$", text, re.MULTILINE)
    for name, line in listed[:-1]:
        assert gdb_session.batch([], [f"help {name}"]).outputs[0].startswith(line)
    assert [name for name, _ in listed] == ["py-deadlocks", "py-threads-locks", "py-mixed-bt", "py-crash", "gil-holder",
                                            "rwlock-owner", "lock-owner", "bt"]
    assert gdb_session.batch([], ["gdbext"]).outputs[0] == text
