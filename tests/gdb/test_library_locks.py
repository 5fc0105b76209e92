"""Threads that hang in locks of libraries: holders and deadlocks, on processes and cores, with and without symbols."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cores, debian_packages, gdb_session, interpreters, locks, packages, samples
from tests.support.report import Report
from tests.support.samples import SOURCES, Sample


def targets(sample: Sample) -> Iterator[tuple[str, list[str | Path]]]:
    """GDB's arguments for the process and for cores of it, each with a name."""
    yield "live", ["-p", str(sample.pid)]
    for name, make in (("gcore", cores.gdb_core), ("kernel core", cores.kernel_core)):
        core = make(sample)
        yield name, [sample.executable, core]
        core.unlink()


def inspect(sample: Sample, *, symbols: bool) -> None:
    """Compare the waits, locks and deadlocks that each snapshot reports with the truth."""
    for name, where in targets(sample):
        session = gdb_session.batch(where, ["py-threads-locks --json"], symbols=symbols, directory=sample.directory)
        assert session.status == 0, name
        report = Report(session.document(0), sample.truth)
        assert report.document["problems"] == [], name
        for lock in sample.truth.locks:
            report.check_lock(lock)
        for role in sample.truth.threads:
            report.check_thread(role)
        assert report.edges() == set(sample.truth.deadlock), name


@pytest.mark.parametrize("name", ["3.11", "3.13-stripped"])
def test_fast_rlocks(name: str, tmp_path: Path) -> None:
    """FastRLock of fastrlock and of lupa: taken by Python code, by compiled code, and by a thread that has ended."""
    python, symbols = interpreters.use(name)
    folder = packages.use_locks(name.partition("-")[0])
    variables = {"PYTHONPATH": str(folder)}
    with samples.running([python, SOURCES / "fast_rlocks.py"], tmp_path, variables=variables) as sample:
        inspect(sample, symbols=symbols)


CXX = ("-O2", "-std=gnu++20", "-w", "-fPIC", "-pthread")
QT_SCENES = ("mutex", "recursive", "semaphore", "queued", "handled", "end")


@pytest.mark.parametrize("build", ["symbols", "stripped"])
@pytest.mark.parametrize("major", [5, 6])
def test_qt(major: int, build: str, tmp_path: Path) -> None:
    """Mutexes, the end of a QThread, and blocking queued calls that wait or are handled."""
    root = debian_packages.use("qt")
    library = debian_packages.libraries(root)
    headers = root / "usr/include" / library.name / f"qt{major}"
    stripped = build == "stripped"
    program = samples.compiled(
        f"qt{major}-locks", "qt_locks.cc", (*CXX, *(() if stripped else ("-g",)), f"-I{headers}"),
        (str(library / f"libQt{major}Core.so.{major}"), "-Wl,--allow-shlib-undefined", "-lstdc++"), strip=stripped)
    variables = {"LD_LIBRARY_PATH": str(library)}
    with samples.running([program, *QT_SCENES], tmp_path, variables=variables) as sample:
        found = {name: locks.mistakes(sample.truth, gdb_session.batch(where, locks.COMMANDS, symbols=not stripped,
                                                                      directory=sample.directory))
                 for name, where in targets(sample)}
    locks.fail_over(found)
