"""Reports that do not fit on a terminal go through a pager."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pexpect
import pytest

from tests.support.interpreters import CHECKOUT

#: Writes a report of as many lines as its first argument says, then a line to standard error.
_PROGRAM = """
import sys
from gdbext.launcher.pager import write_report
write_report("".join(f"line {number}\\n" for number in range(int(sys.argv[1]))), sys.argv[2:] != ["--no-pager"])
print("after it", file=sys.stderr)
raise SystemExit(1)
"""


def at_terminal(*arguments: str, pager: str | None = None, term: str = "xterm",
                shell: str = "exec {}") -> pexpect.spawn[str]:
    """Write a report at a terminal with 10 lines of 40 columns, started by a command of a shell."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PAGER", "LESS")}
    environment = {**kept, "TERM": term, "PYTHONPATH": str(CHECKOUT), **({} if pager is None else {"PAGER": pager})}
    command = shell.format(shlex.join([sys.executable, "-c", _PROGRAM, *arguments]))
    return pexpect.spawn("sh", ["-c", command], encoding="utf-8", env=environment, timeout=30, dimensions=(10, 40))


def output_of(session: pexpect.spawn[str]) -> str:
    """The whole output of a session that ends with the status of the report."""
    session.expect(pexpect.EOF)
    text = str(session.before).replace("\r\n", "\n")
    session.close()
    assert session.exitstatus == 1, text
    return text


def report(lines: int) -> str:
    return "".join(f"line {number}\n" for number in range(lines))


@pytest.fixture
def marking(tmp_path: Path) -> str:
    """A pager that shows the number of its lines, and the options of less."""
    path = tmp_path / "pager"
    path.write_text('#!/bin/sh\necho "paged $(wc -l) $LESS"\n')
    path.chmod(0o755)
    return str(path)


def test_report_that_does_not_fit_goes_through_the_pager(marking: str) -> None:
    assert output_of(at_terminal("10", pager=marking)) == "paged 10 FRX\nafter it\n"


def test_report_that_fits_does_not(marking: str) -> None:
    assert output_of(at_terminal("9", pager=marking)) == report(9) + "after it\n"


@pytest.mark.parametrize(("arguments", "term"), [(["30", "--no-pager"], "xterm"), (["30"], "dumb")])
def test_pager_is_not_used(arguments: list[str], term: str, marking: str) -> None:
    assert output_of(at_terminal(*arguments, pager=marking, term=term)) == report(30) + "after it\n"


@pytest.mark.parametrize("pager", ["", " ", "cat", "/nonexistent/pager", "/etc/passwd"])
def test_report_without_a_pager_that_runs_is_written(pager: str) -> None:
    text = output_of(at_terminal("30", pager=pager))
    assert text.endswith(report(30) + "after it\n")


def test_pager_that_ends_early_is_no_error() -> None:
    """More than a pipe holds is left."""
    assert output_of(at_terminal("100000", pager="head -n 2")) == report(2) + "after it\n"
    assert output_of(at_terminal("100000", pager="exit 3;")) == "after it\n"


def test_less_shows_the_report_page_by_page() -> None:
    if pexpect.which("less") is None:
        pytest.skip("less is not installed")
    session = at_terminal("100")
    session.expect("line 8\\b")
    assert not session.expect([pexpect.TIMEOUT, "line 9\\b"], timeout=0.5)
    session.send(" ")
    session.expect("line 17\\b")
    session.send("q")
    assert output_of(session).endswith("after it\n")


def test_interrupt_is_for_the_pager() -> None:
    session = at_terminal("100", pager="trap 'echo caught; exit' INT; echo waiting; while :; do sleep 0.05; done")
    session.expect_exact("waiting")
    session.sendintr()
    assert "caught\nafter it\n" in output_of(session)


def test_report_of_a_background_job_is_written(marking: str) -> None:
    """A pager would be stopped when it reads a key."""
    assert "paged 30" in output_of(at_terminal("30", pager=marking, shell="set -m; {}")), "in the foreground"
    assert report(30) in output_of(at_terminal("30", pager=marking, shell="set -m; {} & wait $!"))
