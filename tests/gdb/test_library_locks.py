"""Threads that hang in locks of libraries: holders and deadlocks, on processes and cores, with and without symbols."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


BUILDS = ("symbols", "stripped")
CXX = ("-O2", "-std=gnu++20", "-w", "-fPIC", "-pthread")
QT_SCENES = ("mutex", "recursive", "semaphore", "queued", "handled", "end")


def compile_and_inspect(source: str, name: str, scenes: Sequence[str], headers: Path, library: Path, file: str,
                        build: str, directory: Path) -> None:
    """Compile scenes with a library of `debian_packages`, and inspect them.

    :param file: name of the shared library that they are linked with.
    """
    symbols = build == "symbols"
    program = samples.compiled(name, source, (*CXX, *(("-g",) if symbols else ()), f"-I{headers}"),
                               (str(library / file), "-Wl,--allow-shlib-undefined", "-lstdc++"), strip=not symbols)
    with samples.running([program, *scenes], directory, variables={"LD_LIBRARY_PATH": str(library)}) as sample:
        found = {name: locks.mistakes(sample.truth, gdb_session.batch(where, locks.COMMANDS, symbols=symbols,
                                                                      directory=sample.directory))
                 for name, where in targets(sample)}
    locks.fail_over(found)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("major", [5, 6])
def test_qt(major: int, build: str, tmp_path: Path) -> None:
    """Mutexes, the end of a QThread, and blocking queued calls that wait or are handled."""
    root = debian_packages.use("qt")
    library = debian_packages.libraries(root)
    headers = root / "usr/include" / library.name / f"qt{major}"
    compile_and_inspect("qt_locks.cc", f"qt{major}-locks", QT_SCENES, headers, library, f"libQt{major}Core.so.{major}",
                        build, tmp_path)


@pytest.mark.parametrize("build", BUILDS)
def test_shared_mutex_of_boost(build: str, tmp_path: Path) -> None:
    """A waiter on each of its condition variables; the holders are only counted."""
    root = debian_packages.use("boost")
    library = debian_packages.libraries(root)
    file = next(library.glob("libboost_thread.so.*")).name
    compile_and_inspect("boost_locks.cc", "boost-locks", ("written", "shared", "upgraded"), root / "usr/include",
                        library, file, build, tmp_path)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", ["tcmalloc", "jemalloc"])
def test_signal_handler_inside_an_allocator(name: str, build: str, tmp_path: Path) -> None:
    """The thread waits for the lock that it has: tcmalloc's spin lock, or jemalloc's mutex."""
    library = min(debian_packages.libraries(debian_packages.use("malloc")).glob(f"lib{name}*.so.*"))
    symbols = build == "symbols"
    flags = ("-O2", "-pthread", "-rdynamic", *(("-g",) if symbols else ()))
    program = samples.compiled("allocator", "allocator.c", flags, ("-ldl",), strip=not symbols)
    with samples.running([program, name], tmp_path, variables={"LD_PRELOAD": str(library)}) as sample:
        found = {name: locks.mistakes(sample.truth, gdb_session.batch(where, locks.COMMANDS, symbols=symbols,
                                                                      directory=sample.directory))
                 for name, where in targets(sample)}
    locks.fail_over(found)
