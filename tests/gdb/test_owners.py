"""Owners that are not there: left behind by fork, ended, in another process; and those known by other numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import combinations, cores, gdb_session, locks, samples
from tests.support.mounts import needs_mounted_root
from tests.support.report import Report
from tests.support.samples import Sample, Truth

BUILDS = ("symbols", "stripped")
LEFT_BEHIND = ("left-mutex", "left-robust", "left-written", "left-read")
WAYS = {
    # a FILE records a descriptor, which the next thread would get
    "ended": ("here", "exited-mutex", "exited-unjoined", "exited-writer", "robust-inherited", "exited-stdio"),
    "elsewhere": ("here", "elsewhere-mutex", "elsewhere-robust", "elsewhere-written"),
    "left-behind": ("fork", *LEFT_BEHIND),
    "left-behind-by-none": ("orphaned", *LEFT_BEHIND),
}
#: Scenes of locks.c with an owner of each style, in which nobody could be mistaken for somebody else unnoticed.
IN_NAMESPACE = ("normal", "recursive", "robust", "pi", "pi-robust", "self", "written-writer", "written-both",
                "read-two", "read-abba", "barrier-deadlock", "join-cycle", "join-mutex", "stdio-abba", "once-deadlock")
#: In a PID namespace each way is tested with one build: what differs there is the numbers, not the code.
NAMESPACE_CASES = [(way, build) for row, way in enumerate(WAYS) for column, build in enumerate(BUILDS)
                   if combinations.LONG or row % 2 == column]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a PID namespace")


def start(
    argv: tuple[str | Path, ...], directory: Path, build: str, namespace: bool = False
) -> AbstractContextManager[Sample]:
    return samples.owners(argv, directory, stripped=build == "stripped", namespace=namespace)


def places(sample: Sample) -> Iterator[tuple[str, list[str | Path]]]:
    """Where a GDB finds the program, by the name of the way: the process, and cores of it."""
    yield "live", ["-p", str(sample.pid)]
    for name, make in (("gcore", cores.gdb_core), ("kernel core", cores.kernel_core)):
        core = make(sample)
        yield name, [sample.executable, core]
        core.unlink()


def look_at_all(sample: Sample, build: str, parent_gone: bool = False) -> None:
    found = {}
    for name, where in places(sample):
        session = gdb_session.batch(where, locks.COMMANDS, symbols=build == "symbols")
        truth = sample.truth
        if name != "live" or parent_gone:
            truth = as_far_as_known(truth, name == "live")
        if name != "live" or sample.pid != truth.pid:
            truth = without_the_kernels_word(truth)
        found[name] = locks.mistakes(truth, session)
    locks.fail_over(found)


def as_far_as_known(truth: Truth, live: bool) -> Truth:
    """What can be told of a child of fork where nothing is known of its parent.

    The owner of a lock may be the thread that called fork: it lives on as the first thread, which may unlock it. That a
    robust mutex is not shared with another process is not known of a core.
    """
    left = {name: replace(lock, orphan=None, candidates=("main",) if live or "robust" not in name else ())
            for name, lock in truth.locks.items() if lock.orphan == "left behind by fork"}
    return replace(truth, locks={**truth.locks, **left}, deadlock=tuple(
        edge for edge in truth.deadlock if edge[2] is not None or edge[1] not in left))


def without_the_kernels_word(truth: Truth) -> Truth:
    """What is known where the kernel cannot be asked about a TID. A FILE names a descriptor, which says what it was."""
    return replace(truth, locks={
        name: replace(lock, orphan="not a living thread")
        if lock.orphan == "thread exited" and lock.kind != "stdio" else lock for name, lock in truth.locks.items()})


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("way", WAYS)
def test_owner_is_not_there(way: str, build: str, tmp_path: Path) -> None:
    with start(WAYS[way], tmp_path, build) as sample:
        look_at_all(sample, build, "orphaned" in WAYS[way])


def test_lock_of_the_thread_that_called_fork(tmp_path: Path) -> None:
    """That thread is there, as the first, under another number than the lock records, and may yet unlock it."""
    with start(("fork", "forker"), tmp_path, "symbols") as sample:
        (name, lock), = sample.truth.locks.items()
        truth = replace(sample.truth, locks={name: replace(lock, candidates=("main",))})
        session = gdb_session.batch(["-p", str(sample.pid)], locks.COMMANDS)
        locks.fail_over({"live": locks.mistakes(truth, session)})


@pytest.mark.parametrize("build", BUILDS)
def test_robust_mutex_whose_owner_died(build: str, tmp_path: Path) -> None:
    """Nobody waits for it: the next thread that wants it would get it."""
    with start(("here", "robust-died"), tmp_path, build) as sample:
        mutex = sample.truth.locks["robust-died.lock"]
        for _, where in places(sample):
            session = gdb_session.batch(
                where, ["py-threads-locks --json", f"lock-owner {mutex.address:#x} --json"], symbols=build == "symbols"
            )
            assert session.status == 0
            report = Report(session.document(0), sample.truth)
            assert report.document["deadlocks"] == []
            Report(session.document(1), sample.truth, report.roles).check_lock("robust-died.lock")


@needs_root
@needs_mounted_root
@pytest.mark.parametrize("build", BUILDS)
def test_pid_namespace(build: str, tmp_path: Path) -> None:
    """Locks record the numbers of the namespace. A core of GDB's has others, and a thread too many for each."""
    program = samples.build("locks-stripped" if build == "stripped" else "locks")
    with start(("run", program, *IN_NAMESPACE), tmp_path, build, namespace=True) as sample:
        assert sample.pid != sample.truth.pid
        look_at_all(sample, build)


@needs_root
@needs_mounted_root
@pytest.mark.parametrize(("way", "build"), NAMESPACE_CASES)
def test_owner_is_not_there_in_a_pid_namespace(way: str, build: str, tmp_path: Path) -> None:
    with start(WAYS[way], tmp_path, build, namespace=True) as sample:
        look_at_all(sample, build, "orphaned" in WAYS[way])


@needs_root
@needs_mounted_root
def test_number_of_an_owner_that_ended(tmp_path: Path) -> None:
    """A new thread has got it. The lock records no more than the number, and the C library takes that for the owner."""
    with start(("here", "recycled"), tmp_path, "symbols", namespace=True) as sample:
        look_at_all(sample, "symbols")
