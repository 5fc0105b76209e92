"""The block for an issue: its limits, its fence, and its parts."""

from __future__ import annotations

import dataclasses

import pytest

from gdbext.model import Report, Thread
from gdbext.narrate import issue
from gdbext.redact import redact
from gdbext.render.issue import issue_block
from tests.support.fake_report import asyncio, crashed, gil_deadlock, healthy, hostile, standstill_of_workers


def block(report: Report, processes: tuple[str, ...] = ()) -> list[str]:
    about = [issue.versions(report, "1.0", ["Linux 6.1"]), issue.packages([("requests", "2.31.0")])]
    text = issue_block(report, about, issue.class_line("deadlock", "abc"), lambda file, line: None, processes)
    lines = text.split("\n")
    assert (lines[0], lines[-2:]) == ("```text", ["```", ""])
    assert len(lines) <= 61
    assert len(text.encode()) <= 6_000
    assert "```" not in "\n".join(lines[1:-2])
    return lines[1:-2]


def many(report: Report) -> Report:
    more = [Thread(100 + at, 1000 + at, None, "worker", status="blocked", syscall=f"call{at}" * 30)
            for at in range(300)]
    return dataclasses.replace(report, threads=(*report.threads, *more))


@pytest.mark.parametrize("report", [gil_deadlock(), healthy(), asyncio(), crashed(), standstill_of_workers(90, 40)])
@pytest.mark.parametrize("change", [lambda report: report, many, hostile, redact])
def test_block_is_short_and_ends_where_it_ends(report: Report, change: object) -> None:
    lines = block(change(report))  # type: ignore[operator]
    assert lines[0].startswith("gdbext 1.0, ")
    assert lines[1:3] == ["packages on the stacks: requests 2.31.0", "class: deadlock abc"]


def test_fence_in_a_name_does_not_end_the_block() -> None:
    report = gil_deadlock()
    threads = tuple([dataclasses.replace(thread, python_name="```\n# title") for thread in report.threads])
    assert any("'''" in line for line in block(dataclasses.replace(report, threads=threads)))


def test_verdict_comes_first_and_what_was_taken_out_last() -> None:
    lines = block(redact(gil_deadlock()))
    assert lines[4].startswith("DEADLOCK: 2 threads wait for each other")
    assert lines[-1].startswith("Left out: what is private: ")


def test_other_threads_have_one_line_for_each_group() -> None:
    lines = block(many(gil_deadlock()))
    at = lines.index(issue.OTHERS)
    assert lines[at + 1].startswith("  Thread")
    assert any(line.startswith("  and ") and line.endswith(" of threads") for line in lines[at:])


def test_lines_about_several_processes_replace_the_verdict() -> None:
    lines = block(gil_deadlock(), ("2 processes", *["x" * 100] * 80))
    assert lines[4] == "2 processes"
    assert issue.CUT in lines
    assert lines[-1].startswith(("Note", "Not known"))
