"""Locks of Python objects are named by the values of these objects, on processes and cores of each interpreter."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import combinations, cores, gdb_session, interpreters, launcher, roots, samples
from tests.support.interpreters import CHECKOUT
from tests.support.report import Report
from tests.support.samples import Sample

PROGRAM = samples.SOURCES / "accounts.py"
TARGETS = ("live", "kernel-core", "gcore")
CASES = [
    *combinations.cases(interpreters.MAIN_NAMES, ("",), TARGETS),
    *itertools.product((*interpreters.FURTHER_NAMES, *interpreters.FREE_THREADED_NAMES), ("",), ("live",)),
]
ROOT_PYTHONS = ("sid-3.13", "sid-3.14", "sid-3.15", "sid-3.14-dbg")
COMMANDS = ("py-deadlocks --json", "py-deadlocks", "set gdbext object-names off", "py-deadlocks --json", "py-deadlocks")
OPTION = "--no-object-names"


def check(session: gdb_session.Result, sample: Sample, expected: dict[str, Any]) -> None:
    """Check the objects in the report, and that the setting leaves them out."""
    assert session.status == 0, session
    report, without = (Report(session.document(index), sample.truth) for index in (0, 3))
    assert report.edges() == set(sample.truth.deadlock)
    for name in sample.truth.locks:
        report.check_lock(name)
    found = {name: report.lock(name)["of_object"] for name in sample.truth.locks}
    assert {name: each and [each["type"], each["attribute"], each["value"]] for name, each in found.items()} == expected
    names = {name: report.lock(name)["name"] for name in sample.truth.locks}
    assert names == {name: "self.lock of Ledger" if name == "ledger" else "dst.lock" for name in expected}
    assert gdb_session.violations(report.document) == []
    assert gdb_session.violations(without.document) == []
    assert {lock["of_object"] for lock in without.document["locks"]} == {None}
    assert {name: without.lock(name)["name"] for name in expected} == names
    for text in ("dst.lock of Account 'alice'", "dst.lock of Slotted 1", "dst.lock of Large 0x8f1200"):
        assert text in session.outputs[1]
        assert text not in session.outputs[4]
    assert "\x1b" not in session.outputs[1]


@pytest.mark.parametrize(("name", "_", "target"), CASES, ids=[f"{name}-{target}" for name, _, target in CASES])
def test_locks_are_named_by_their_objects(name: str, _: str, target: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    with samples.running([python, PROGRAM], tmp_path) as sample:
        expected = json.loads((tmp_path / "more.json").read_text())
        with cores.place(sample, python, target) as where:
            check(gdb_session.batch(where, COMMANDS, symbols=symbols), sample, expected)


@pytest.mark.parametrize("name", ROOT_PYTHONS)
def test_locks_are_named_by_their_objects_with_python_of_debian(name: str, tmp_path: Path) -> None:
    root = roots.use_python(name)
    with samples.running([root.python, PROGRAM], tmp_path, place=root.place, variables=dict(root.variables)) as sample:
        expected = json.loads((tmp_path / "more.json").read_text())
        check(gdb_session.batch(["-p", str(sample.pid)], COMMANDS, symbols=False, gdb=root.gdb), sample, expected)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    python, _ = interpreters.use(interpreters.ANY)
    with samples.running([python, PROGRAM], tmp_path_factory.mktemp("accounts")) as running:
        yield running


def launch(*words: str | Path) -> str:
    command = [sys.executable, "-m", "gdbext", *words, "--gdb", gdb_session.executable()]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=gdb_session.TIMEOUT, check=False)
    assert done.returncode == 1, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [("report",), ("report", "--json"), ("report", "--children"),
                                   ("report", "--dot", "-"), ("triage", "--json")])
def test_launcher_can_leave_objects_out(words: Sequence[str], sample: Sample) -> None:
    assert "'alice'" in launch(*words, str(sample.pid))
    assert "'alice'" not in launch(*words, str(sample.pid), OPTION)


def test_page_shows_objects(sample: Sample, tmp_path: Path) -> None:
    for options, shown in (((), True), ((OPTION,), False)):
        launch("report", str(sample.pid), "--html", tmp_path / "page.html", *options)
        assert ("Account &#39;alice&#39;" in (tmp_path / "page.html").read_text()) == shown


@pytest.mark.parametrize(("options", "shown"), [((), True), ((OPTION,), False)])
def test_attached_gdb_can_leave_objects_out(options: Sequence[str], shown: bool, sample: Sample) -> None:
    command = [sys.executable, "-m", "gdbext", "attach", "--gdb", gdb_session.executable(), *options, str(sample.pid)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(CHECKOUT), "HOME": "/nonexistent"},
                          input="py-deadlocks\n", capture_output=True, text=True, timeout=gdb_session.TIMEOUT,
                          check=False)
    assert "needs threading.Lock" in done.stdout, done.stderr
    assert ("Account 'alice'" in done.stdout) == shown


@pytest.fixture(scope="module")
def of_another_user() -> Iterator[Sample]:
    """The program, run by the user `nobody`."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root starts programs as another user")
    python, _ = interpreters.use("debian")
    place = replace(samples.HERE, enter=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"))
    with tempfile.TemporaryDirectory(prefix="gdbext-user-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        program = shutil.copy(PROGRAM, folder)
        with samples.running([python, program], folder, place=place) as running:
            assert (Path(f"/proc/{running.pid}").stat().st_uid) == 65534
            yield running


NOTE = "values of variables are left out of this file because the process belongs to another user"


@pytest.mark.parametrize("gdb", [("--gdb", gdb_session.executable()), ("--no-gdb",)])
def test_values_of_another_user_are_in_no_file(gdb: Sequence[str], of_another_user: Sample, tmp_path: Path) -> None:
    target, page = str(of_another_user.pid), tmp_path / "page.html"
    # the verdict is a deadlock, which is status 1
    for options, shown in (((), False), (("--values",), True)):
        done = launcher.launch_by([*launcher.command("report", target, "--html", page, *options, gdb=None), *gdb])
        assert done.status == 1, done
        assert ("alice" in page.read_text(), "alice" in done.stdout) == (shown, shown)
        assert (NOTE in page.read_text(), NOTE in done.stdout) == (not shown, not shown)
        assert page.stat().st_mode & 0o777 == 0o600
    with open(tmp_path / "report.json", "w+") as file:
        argv = [*launcher.command("report", target, "--json", gdb=None), *gdb]
        assert subprocess.run(argv, env=launcher.environment(), stdout=file, check=False).returncode == 1
        file.seek(0)
        document = json.load(file)
    assert {lock["of_object"] for lock in document["locks"]} == {None}
    assert [code["code"] for code in document["note_codes"]].count("values-withheld") == 1
    assert gdb_session.violations(document) == []
    # a pipe is not a file
    assert "alice" in launcher.launch_by([*launcher.command("report", target, "--json", gdb=None), *gdb]).stdout
