"""Known bugs: each program hangs with an affected version and its report names the bug; with a fixed one it ends.

A program that hangs for another reason, in the same package, is not taken for the bug.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gdbext.known.fingerprint import CPYTHON, Fingerprint, fingerprints
from tests.precision.harness import core_by_gdb
from tests.rates.harness import STILL, settled
from tests.support import combinations, interpreters, launcher, packages, samples
from tests.support.patience import patience
from tests.support.report import Json

PROGRAMS = Path(__file__).resolve().parent / "programs"
#: The interpreter of the packages.
PYTHON = "3.11"
_DATA_FRAMES = ("pandas==2.3.3", "pyarrow==21.0.0", "numpy==2.1.3")
#: The program of each bug with its argument, what it needs besides, and whether that takes too long for a short run.
BUGS = {
    "python/cpython#115634": ("process_pool.py", (), False),
    "agronholm/anyio#1145": ("anyio_lock.py", (), False),
    "getsentry/sentry-python#6148": ("sentry_fork.py monitor", (), False),
    "getsentry/sentry-python#6149": ("sentry_fork.py logs", (), False),
    "redis/redis-py#3654": ("redis_pool.py", (), False),
    "gevent/gevent#1865": ("gevent_fork.py", ("greenlet==3.5.6",), False),
    "pola-rs/polars#27396": ("polars_pandas.py", _DATA_FRAMES, True),
    "pola-rs/polars#26821": ("polars_numpy.py", _DATA_FRAMES, True),
}
BY_ID = {bug.id: bug for bug in fingerprints()}
#: The interpreters with which bugs of CPython are tried.
INTERPRETERS = ("debian", "3.11", "3.13", "3.13t", "3.12", "3.14t") if combinations.LONG else (
    "debian", "3.11", "3.13", "3.13t")


def of_packages() -> list[object]:
    return [pytest.param(BY_ID[bug], marks=[pytest.mark.long] if long else [], id=bug.rpartition("/")[2])
            for bug, (_, _, long) in BUGS.items() if BY_ID[bug].package != CPYTHON]


def installed(bug: Fingerprint, version: str) -> Path:
    """The folder of a version of the package, with what the program needs besides."""
    requirements = [f"{bug.package}=={version}", *BUGS[bug.id][1]]
    folder = samples.cache_directory().parent / "known" / f"{bug.package}-{version}" / "site-packages"
    missing = packages.install(folder, requirements, "--python-version", PYTHON)
    if missing is not None:
        interpreters.do_without("known-packages", missing)
    return folder


def command(bug: Fingerprint, python: str = PYTHON, *scenes: str) -> list[str]:
    program, *words = BUGS[bug.id][0].split()
    return [str(interpreters.use(python)[0]), str(PROGRAMS / program), *words, *scenes]


@contextmanager
def documents(pid: int, directory: Path) -> Iterator[list[Json]]:
    """The reports on a process and on its core."""
    core = directory / "core-file"
    core_by_gdb(pid, core)
    yield [launcher.launch("report", str(target), "--json", gdb=None).document() for target in (pid, core)]
    core.unlink()


def ends(argv: list[str], directory: Path, **variables: str) -> bool:
    environment = {**{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}, **variables}
    try:
        subprocess.run(argv, cwd=directory, env=environment, capture_output=True, timeout=patience(40), check=True)
    except subprocess.TimeoutExpired:
        return False
    return True


def test_each_bug_has_a_program() -> None:
    assert BUGS.keys() == BY_ID.keys()
    assert {path.name for path in PROGRAMS.iterdir() if path.suffix == ".py"} == {
        row[0].split()[0] for row in BUGS.values()}


@pytest.mark.parametrize("bug", of_packages())
def test_an_affected_package(bug: Fingerprint, tmp_path: Path) -> None:
    for version in bug.hangs if combinations.LONG else bug.hangs[-1:]:
        variables = {"PYTHONPATH": str(installed(bug, version))}
        with settled(command(bug), tmp_path, STILL, **variables) as pid, documents(pid, tmp_path) as found:
            for document in found:
                known, = document["known"]
                assert (known["id"], known["version"], known["fixed_in"]) == (bug.id, version, bug.ends[0])
                assert known["agree"] == known["facts"] > 2


@pytest.mark.parametrize("bug", of_packages())
def test_a_fixed_package(bug: Fingerprint, tmp_path: Path) -> None:
    assert ends(command(bug), tmp_path, PYTHONPATH=str(installed(bug, bug.ends[0])))


@pytest.mark.parametrize("bug", of_packages())
def test_another_hang_with_the_package(bug: Fingerprint, tmp_path: Path) -> None:
    variables = {"PYTHONPATH": str(installed(bug, bug.hangs[-1]))}
    with settled(command(bug, PYTHON, "alike"), tmp_path, STILL, **variables) as pid, documents(pid, tmp_path) as found:
        for document in found:
            assert document["verdict"]["kind"] not in ("idle", "computing")
            assert "known" not in document


@pytest.mark.parametrize("python", INTERPRETERS)
@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.id.rpartition("/")[2])
                                 for bug in fingerprints() if bug.package == CPYTHON])
def test_a_bug_of_cpython(bug: Fingerprint, python: str, tmp_path: Path) -> None:
    argv = command(bug, python)
    version = samples.HERE.run([argv[0], "-c", "import platform; print(platform.python_version())"]).strip()
    affected = bug.is_affected(version)
    if affected is False:
        assert ends(argv, tmp_path)
        return
    with settled(argv, tmp_path) as pid, documents(pid, tmp_path) as found:
        for document in found:
            known, = document["known"]
            assert (known["id"], known["version"]) == (bug.id, version)
            assert known["facts"] - known["agree"] == (affected is None)


@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.id.rpartition("/")[2])
                                 for bug in fingerprints() if bug.package == CPYTHON])
def test_another_hang_in_the_library_of_cpython(bug: Fingerprint, tmp_path: Path) -> None:
    with settled(command(bug, "debian", "alike"), tmp_path) as pid, documents(pid, tmp_path) as found:
        for document in found:
            assert "known" not in document


def test_the_line_after_the_verdict(tmp_path: Path) -> None:
    bug = BY_ID["getsentry/sentry-python#6148"]
    with settled(command(bug), tmp_path, STILL, PYTHONPATH=str(installed(bug, "2.57.0"))) as pid:
        text = launcher.launch("report", str(pid), gdb=None).stdout
        brief = json.loads(launcher.launch("report", str(pid), "--brief", "--json", gdb=None).stdout)
    said = f"Looks like {bug.id} ({bug.title}), fixed in sentry-sdk 2.59.0: 5 of 5 facts agree."
    assert said in text
    assert any(said in remark for remark in brief["remarks"])
