from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.model import Report
from gdbext.narrate.editors import no_verdict_line, verdict_line
from gdbext.narrate.names import Facts
from gdbext.narrate.verdict import headline
from gdbext.narrate.words import plain
from gdbext.render.plain_text import one_line
from tests.support.fake_report import crashed, gil_deadlock, healthy, hostile, without_verdict


@pytest.mark.parametrize(("report", "line"), [
    (gil_deadlock(), "gdbext: deadlock of 2 threads: the GIL, pthread rwlock in libdrv.so; `py-deadlocks` explains it"),
    (healthy(), f"gdbext: {plain(headline(Facts(healthy()))[1])}"),
    (without_verdict(), f"gdbext: {plain(headline(Facts(without_verdict()))[1])}"),
])
def test_line_of_a_verdict(report: Report, line: str) -> None:
    assert one_line(verdict_line(report)) == line


def test_line_of_a_crash_names_its_command() -> None:
    report = crashed()
    line = one_line(verdict_line(report))
    assert line.startswith("gdbext: SIGSEGV: ")
    assert line.endswith("; `py-crash` explains it")
    assert "py-crash" not in one_line(verdict_line(replace(report, crash=None)))


def test_line_of_a_hostile_target_is_one_line() -> None:
    assert one_line(verdict_line(hostile(gil_deadlock()))).isprintable()


def test_line_without_a_snapshot() -> None:
    assert one_line(no_verdict_line("a\nb")) == "gdbext: could not be inspected: a\\x0ab"
