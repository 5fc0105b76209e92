"""Threads that hang in OpenMP: the threads missing at a barrier or inside a critical section, and idle pools."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import cores, gdb_session, interpreters, locks, openmp, roots
from tests.support.report import Report
from tests.support.samples import Sample

BUILDS = ("symbols", "stripped")
CLANG = shutil.which("clang") or shutil.which("clang-14")


def mistakes(sample: Sample, where: Sequence[str | Path], *, symbols: bool, gdb: Sequence[str] = ()) -> list[str]:
    session = gdb_session.batch(where, locks.COMMANDS, symbols=symbols, gdb=gdb, directory=sample.directory)
    return locks.mistakes(sample.truth, session)


def mistakes_of_places(sample: Sample, *, symbols: bool) -> dict[str, list[str]]:
    """The mistakes about the process and about cores of it."""
    return {name: mistakes(sample, where, symbols=symbols) for name, where in cores.places(sample, symbols=symbols)}


@pytest.mark.parametrize("build", BUILDS)
def test_sixteen_teams(build: str, tmp_path: Path) -> None:
    """Sixteen teams in one process, including nested ones and idle pools."""
    with openmp.start(openmp.SCENES, tmp_path, stripped=build == "stripped") as sample:
        locks.fail_over(mistakes_of_places(sample, symbols=build == "symbols"))


@pytest.mark.parametrize("scene", ["barrier", "idle_deadlock", "nested", "named"])
def test_single_team(scene: str, tmp_path: Path) -> None:
    with openmp.start([scene], tmp_path, stripped=True) as sample:
        locks.fail_over({"live": mistakes(sample, ["-p", str(sample.pid)], symbols=False)})


@pytest.mark.parametrize("build", BUILDS)
def test_pool_left_behind_by_fork(build: str, tmp_path: Path) -> None:
    """A child of fork waits for threads that exist only in its parent."""
    with openmp.start_fork(tmp_path, stripped=build == "stripped") as sample:
        locks.fail_over(mistakes_of_places(sample, symbols=build == "symbols"))


@pytest.mark.parametrize("suite", interpreters.SUITES)
def test_openmp_of_another_debian(suite: str, tmp_path: Path) -> None:
    """GCC 10, 14 and sid's; the release's GDB, and this machine's: one on the process, the other on its core."""
    root = roots.use(suite)
    with openmp.start(openmp.SCENES, tmp_path, stripped=True, place=root.place) as sample:
        ways = root.ways(interpreters.SUITES.index(suite))
        attach: list[str | Path] = ["-p", str(sample.pid)]
        found = {}
        if "live, its GDB" in ways:
            found["live, its GDB"] = mistakes(sample, attach, symbols=False, gdb=root.gdb)
        if "live" in ways:
            found["live"] = mistakes(sample, attach, symbols=False)
        core = cores.kernel_core(sample)
        if "core, its GDB" in ways:
            found["core, its GDB"] = mistakes(sample, [sample.executable, core], symbols=False, gdb=root.gdb)
        if "core" in ways:
            found["core"] = mistakes(sample, [*root.sysroot, root.outside(sample.executable), core], symbols=False)
        core.unlink()
    locks.fail_over(found)


@pytest.mark.parametrize("scene", ["slow", "idle"])
@pytest.mark.skipif(CLANG is None, reason="clang with OpenMP is not installed")
def test_openmp_of_llvm(scene: str, tmp_path: Path) -> None:
    """Its threads sleep on condition variables: the report shows which, and names no holder."""
    assert CLANG is not None
    with openmp.start_llvm(CLANG, [scene], tmp_path) as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], locks.COMMANDS, symbols=False)
        report = Report(session.document(0), sample.truth)
    assert session.status == 0
    assert report.document["deadlocks"] == []
    waiting = [role for role in sample.truth.threads if sample.truth.threads[role].syscall == "futex"]
    assert len(waiting) >= 2
    by_id = {row["id"]: row for row in report.document["locks"]}
    for role in waiting:
        lock = by_id[report.thread(role)["waits"]["lock"]]
        assert (lock["kind"], lock["holders"], lock["candidates"]) == ("condvar", [], [])
        why = ("idle OpenMP worker of libomp.so.5" if scene == "idle" else
               "OpenMP worker of libomp.so.5 in __kmpc_barrier")
        assert why in lock["why"]
