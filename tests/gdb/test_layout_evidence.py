"""Layouts without a table of the exact version: debug information, then the nearest micro version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import gdb_session, interpreters, samples
from tests.support.interpreters import CHECKOUT
from tests.support.report import Report


def without_tables(directory: Path, pattern: str) -> str:
    """The command that loads a copy of the package without some tables."""
    shutil.copytree(CHECKOUT / "gdbext", directory / "gdbext", ignore=shutil.ignore_patterns("__pycache__", pattern))
    assert len(list((CHECKOUT / "gdbext" / "layout" / "tables").glob(pattern))) > 0
    return f"source {directory / 'gdbext' / 'gdbext'}"


@pytest.mark.parametrize("name", ["3.7", "3.9", "3.11", "3.12"])
def test_debug_information_supplies_the_layouts(name: str, tmp_path: Path) -> None:
    """Debug information supplies the layouts of a version that has no table."""
    python, _ = interpreters.use(name)
    load = without_tables(tmp_path, f"cpython-{name}.*")
    with samples.rapids(python, "rwlock", tmp_path / "run") as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], [load, "py-threads-locks --json"], load=False, index=False)
    report = Report(session.document(1), sample.truth)
    (runtime,) = report.document["runtimes"]
    assert runtime["layout"] == "dwarf"
    assert report.document["problems"] == []
    assert report.edges() == set(sample.truth.deadlock)
    for role, expected in sample.truth.threads.items():
        assert report.thread(role)["python_name"] == expected.python_name
        assert report.python_stack(role) == expected.stack


def test_stripped_unknown_minor_version_is_refused(tmp_path: Path) -> None:
    """A stripped interpreter without a table of the minor version is refused in a line that names the version."""
    python, symbols = interpreters.use("3.12-stripped")
    load = without_tables(tmp_path, "cpython-3.12.*")
    with samples.rapids(python, "rwlock", tmp_path / "run") as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], [load, "py-deadlocks"], load=False, symbols=symbols,
                                    index=False)
    assert session.status == 1
    (line,) = session.error_lines("py-deadlocks")
    assert "no layout for CPython 3.12." in line
    assert "as the documentation explains under `Layouts`" in line
    assert "cannot be determined" in session.outputs[1]


def test_nearest_micro_version_supplies_the_layouts(tmp_path: Path) -> None:
    """A stripped interpreter is read with the table of another micro version if it fits, and the report says so."""
    python, symbols = interpreters.use("3.11-stripped")
    with samples.rapids(python, "rwlock", tmp_path / "run") as sample:
        whole = gdb_session.batch(["-p", str(sample.pid)], ["gil-holder --json"], symbols=symbols, index=False)
        version = whole.document(0)["runtimes"][0]["version"]
        load = without_tables(tmp_path, f"cpython-{version}-*")
        session = gdb_session.batch(["-p", str(sample.pid)], [load, "py-threads-locks --json"], load=False,
                                    symbols=symbols, index=False)
    report = Report(session.document(1), sample.truth)
    assert report.document["runtimes"][0]["version"] == version
    (note,) = report.document["notes"]
    assert f"no layout table for CPython {version}" in note
    assert report.edges() == set(sample.truth.deadlock)
