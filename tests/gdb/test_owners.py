"""Owners that do not exist: left behind by fork, ended, or in another process; and owners in PID namespaces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import combinations, cores, differential, gdb_session, locks, samples
from tests.support.mounts import needs_mounted_root
from tests.support.report import Report
from tests.support.samples import Sample, Truth

BUILDS = ("symbols", "stripped")
LEFT_BEHIND = ("left-mutex", "left-robust", "left-written", "left-read")
WAYS = {
    # a FILE records a pthread descriptor, which the next thread would reuse
    "ended": ("here", "exited-mutex", "exited-unjoined", "exited-writer", "robust-inherited", "exited-stdio"),
    "elsewhere": ("here", "elsewhere-mutex", "elsewhere-robust", "elsewhere-written"),
    "left-behind": ("fork", *LEFT_BEHIND),
    "left-behind-by-none": ("orphaned", *LEFT_BEHIND),
}
#: Scenes of locks.c with an owner recorded in each way, which would show a thread taken for another one.
IN_NAMESPACE = ("normal", "recursive", "robust", "pi", "pi-robust", "self", "written-writer", "written-both",
                "read-two", "read-abba", "barrier-deadlock", "join-cycle", "join-mutex", "stdio-abba", "once-deadlock")
#: In a PID namespace each way is tested with one build, because only the numbers differ there, not the code.
NAMESPACE_CASES = [(way, build) for row, way in enumerate(WAYS) for column, build in enumerate(BUILDS)
                   if combinations.LONG or row % 2 == column]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a PID namespace")


def start(
    argv: tuple[str | Path, ...], directory: Path, build: str, namespace: bool = False
) -> AbstractContextManager[Sample]:
    return samples.owners(argv, directory, stripped=build == "stripped", namespace=namespace)


def targets(sample: Sample) -> Iterator[tuple[str, list[str | Path]]]:
    """GDB's arguments for the process and for cores of it, each with a name."""
    yield "live", ["-p", str(sample.pid)]
    for name, make in (("gcore", cores.gdb_core), ("kernel core", cores.kernel_core)):
        core = make(sample)
        yield name, [sample.executable, core]
        core.unlink()


def inspect_all_targets(sample: Sample, build: str, parent_gone: bool = False) -> None:
    found = {}
    for name, where in targets(sample):
        session = differential.batch(sample, where, locks.COMMANDS, symbols=build == "symbols")
        truth = sample.truth
        if name != "live" or parent_gone:
            truth = known_without_parent(truth, name == "live")
        if name != "live" or sample.pid != truth.pid:
            truth = known_without_kernel(truth)
        found[name] = locks.mistakes(truth, session)
    locks.fail_over(found)


def known_without_parent(truth: Truth, live: bool) -> Truth:
    """The truth that can be determined for a child of fork without its parent.

    The owner of a lock may be the thread that called fork: it continues as the first thread, which may unlock it. A
    core does not show that a robust mutex is not shared with another process.
    """
    left = {name: replace(lock, orphan=None, candidates=("main",) if live or "robust" not in name else ())
            for name, lock in truth.locks.items() if lock.orphan == "left behind by fork"}
    return replace(truth, locks={**truth.locks, **left}, deadlock=tuple(
        edge for edge in truth.deadlock if edge[2] is not None or edge[1] not in left))


def known_without_kernel(truth: Truth) -> Truth:
    """The truth that can be determined if the kernel cannot say which process a TID belongs to.

    A FILE records a pthread descriptor, which shows what it was.
    """
    return replace(truth, locks={
        name: replace(lock, orphan="not a living thread")
        if lock.orphan == "thread exited" and lock.kind != "stdio" else lock for name, lock in truth.locks.items()})


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("way", WAYS)
def test_missing_owner(way: str, build: str, tmp_path: Path) -> None:
    with start(WAYS[way], tmp_path, build) as sample:
        inspect_all_targets(sample, build, "orphaned" in WAYS[way])


def test_lock_of_the_thread_that_called_fork(tmp_path: Path) -> None:
    """That thread exists as the first one, under another TID than the lock records, and may still unlock it."""
    with start(("fork", "forker"), tmp_path, "symbols") as sample:
        (name, lock), = sample.truth.locks.items()
        truth = replace(sample.truth, locks={name: replace(lock, candidates=("main",))})
        session = gdb_session.batch(["-p", str(sample.pid)], locks.COMMANDS)
        locks.fail_over({"live": locks.mistakes(truth, session)})


@pytest.mark.parametrize("build", BUILDS)
def test_robust_mutex_whose_owner_died(build: str, tmp_path: Path) -> None:
    """No thread waits for it: the next one that locks it gets it."""
    with start(("here", "robust-died"), tmp_path, build) as sample:
        mutex = sample.truth.locks["robust-died.lock"]
        for _, where in targets(sample):
            session = differential.batch(sample, where, [
                differential.COMMAND, f"lock-owner {mutex.address:#x} --json"], symbols=build == "symbols")
            assert session.status == 0
            report = Report(session.document(0), sample.truth)
            assert report.document["deadlocks"] == []
            Report(session.document(1), sample.truth, report.roles).check_lock("robust-died.lock")


@needs_root
@needs_mounted_root
@pytest.mark.parametrize("build", BUILDS)
def test_pid_namespace(build: str, tmp_path: Path) -> None:
    """Locks record TIDs of the namespace. GDB's core has others, and lists each thread twice."""
    program = samples.build("locks-stripped" if build == "stripped" else "locks")
    with start(("run", program, *IN_NAMESPACE), tmp_path, build, namespace=True) as sample:
        assert sample.pid != sample.truth.pid
        inspect_all_targets(sample, build)


@needs_root
@needs_mounted_root
@pytest.mark.parametrize(("way", "build"), NAMESPACE_CASES)
def test_missing_owner_in_a_pid_namespace(way: str, build: str, tmp_path: Path) -> None:
    with start(WAYS[way], tmp_path, build, namespace=True) as sample:
        inspect_all_targets(sample, build, "orphaned" in WAYS[way])


@needs_root
@needs_mounted_root
def test_reused_tid_of_an_ended_owner(tmp_path: Path) -> None:
    """A new thread reuses it. The lock records only the TID, so the C library takes the new thread for the owner."""
    with start(("here", "recycled"), tmp_path, "symbols", namespace=True) as sample:
        inspect_all_targets(sample, "symbols")
