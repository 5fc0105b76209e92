from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from gdbext.model import Report
from gdbext.render.dot import as_dot
from tests.support.fake_report import COUNTED, RWLOCK, gil_deadlock, healthy, hostile, inferred_deadlock, orphaned

REPORTS = [gil_deadlock(), inferred_deadlock(), orphaned(), healthy(), hostile(gil_deadlock()), hostile(orphaned())]
STRING = r'"(?:[^"\\]|\\.)*"'
NODE = rf"(?:t\d+|{STRING})"
ATTRIBUTES = rf"\[\w+=(?:\w+|{STRING})(?:, \w+=(?:\w+|{STRING}))*\]"
STATEMENT = re.compile(rf"  (?:rankdir=LR|node {ATTRIBUTES}|{NODE} {ATTRIBUTES}|{NODE} -> {NODE} {ATTRIBUTES});")


@pytest.mark.parametrize("report", REPORTS)
def test_each_line_is_a_statement(report: Report) -> None:
    first, *lines, last = as_dot(report).splitlines()
    assert (first, last) == ("digraph gdbext {", "}")
    for line in lines:
        assert STATEMENT.fullmatch(line), line


@pytest.mark.parametrize("report", REPORTS)
def test_control_characters_are_escaped(report: Report) -> None:
    assert all(char == "\n" or char.isprintable() for char in as_dot(report))


@pytest.mark.parametrize("report", REPORTS)
def test_graphviz_accepts_the_graph(report: Report) -> None:
    if shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed")
    subprocess.run(["dot", "-Tcanon"], input=as_dot(report), text=True, check=True, capture_output=True, timeout=60)


def test_graph_of_a_deadlock() -> None:
    text = as_dot(gil_deadlock())
    assert f'  t1 -> "{RWLOCK}" [label="waits to write"];' in text
    assert f'  "{RWLOCK}" -> t2 [label="held by (recorded)"];' in text
    assert f'  "{COUNTED}" -> t3 [label="maybe held by", style=dotted];' in text
    red = [line.split()[0] for line in text.splitlines() if 'color="red"' in line]
    assert set(red) == {"t1", "t2", f'"{RWLOCK}"', '"gil:0"'}
    assert "job.py:41" in text
    # threads that neither hold nor wait are omitted
    assert "\n  t5 " not in text


def test_inferred_holders_are_dashed() -> None:
    assert f'"{COUNTED}" -> t2 [label="held by (inferred)", style=dashed];' in as_dot(inferred_deadlock())


def test_healthy_graph_has_no_red() -> None:
    assert "red" not in as_dot(healthy())
