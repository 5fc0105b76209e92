"""Every kind of lock in every state: kind, state, holders, waiters and deadlocks match the program's truth."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support import cores, differential, gdb_session, interpreters, locks, roots, samples
from tests.support.locks import PROCESSES
from tests.support.samples import HERE, Place, Sample

BUILDS = ("symbols", "stripped")
SUITES = (*interpreters.SUITES, *interpreters.OLD_SUITES)
CASES = [
    (suite, name)
    for suite in SUITES
    for name in PROCESSES
    # their compilers do not support C++20
    if (PROCESSES[name].program, suite) not in (("locks-cc", "xenial"), ("locks-cc", "bionic"))
]


def start(name: str, directory: Path, *, stripped: bool, place: Place = HERE) -> AbstractContextManager[Sample]:
    process = PROCESSES[name]
    return samples.locks(process.program, process.scenes, directory, stripped=stripped, place=place)


class Snapshots:
    """Snapshots of one process; all are taken before the test fails because of one of them."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.mistakes: dict[str, list[str]] = {}

    def take(self, name: str, where: Sequence[str | Path], gdb: Sequence[str | Path] = ()) -> None:
        """Compare the report in one GDB with the program's truth."""
        # in-root makes this directory visible inside the tree
        session = gdb_session.batch(where, locks.COMMANDS, symbols=False, gdb=gdb, directory=self.sample.directory)
        self.mistakes[name] = locks.mistakes(self.sample.truth, session)

    def check(self) -> None:
        """Fail if a snapshot showed a mistake."""
        locks.fail_over(self.mistakes)


def skip_if_nothing_is_left(name: str, sample: Sample) -> None:
    """Skip the test if all scenes were left out, which is allowed only where the system cannot show them."""
    left_out = set(sample.truth.left_out)
    assert left_out <= set(locks.CONDITIONS)
    if left_out == set(PROCESSES[name].scenes):
        pytest.skip("; ".join(f"{scene} needs {locks.CONDITIONS[scene]}" for scene in sorted(left_out)))


def inspect_process_and_cores(sample: Sample, build: str) -> None:
    symbols = build == "symbols"
    locks.fail_over({name: locks.mistakes(sample.truth, differential.batch(
        sample, where, locks.COMMANDS, symbols=symbols, directory=sample.directory))
        for name, where in cores.places(sample, symbols=symbols)})


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", PROCESSES)
def test_locks(name: str, build: str, tmp_path: Path) -> None:
    """The process, and a core written by GDB or by the kernel."""
    with start(name, tmp_path, stripped=build == "stripped") as sample:
        skip_if_nothing_is_left(name, sample)
        inspect_process_and_cores(sample, build)


@pytest.mark.parametrize("build", BUILDS)
def test_locks_of_rust(build: str, tmp_path: Path) -> None:
    """They record no owner: threads that wait for each other are reported together, without holders."""
    with samples.locks_rust(tmp_path, stripped=build == "stripped") as sample:
        inspect_process_and_cores(sample, build)


@pytest.mark.parametrize(("suite", "name"), CASES, ids=["-".join(case) for case in CASES])
def test_locks_of_another_release(suite: str, name: str, tmp_path: Path) -> None:
    """The release's GDB, if it is new enough, and this machine's: one on the process, the other on its core."""
    root = roots.use(suite)
    if suite == "xenial" and name in ("mutexes", "rwlocks", "signals", "library") and locks.elides_locks():
        pytest.skip("glibc 2.23 elides locks on a processor with RTM and then records no owner")
    with start(name, tmp_path, stripped=True, place=root.place) as sample:
        skip_if_nothing_is_left(name, sample)
        snapshots = Snapshots(sample)
        ways = root.ways(SUITES.index(suite) + [*PROCESSES].index(name))
        attach = ["-p", str(sample.pid)]
        if "live, its GDB" in ways:
            snapshots.take("live, its GDB", attach, root.gdb)
        if "live" in ways:
            snapshots.take("live", attach)
        core = cores.kernel_core(sample)
        if "core, its GDB" in ways:
            snapshots.take("core, its GDB", [sample.executable, core], root.gdb)
        if "core" in ways:
            snapshots.take("core", [*root.sysroot, root.outside(sample.executable), core])
        core.unlink()
    snapshots.check()


@pytest.mark.skipif(not locks.elides_locks(), reason="only a processor with RTM elides locks")
def test_elided_mutex_records_no_owner_but_code_proves_it(tmp_path: Path) -> None:
    root = roots.use("xenial")
    with samples.locks("locks", ("self",), tmp_path, stripped=True, place=root.place) as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], ["py-threads-locks --json"], symbols=False)
        (lock,) = (lock for lock in session.document(0)["locks"] if lock["kind"] != "descriptor")
        assert lock["address"] == f"{sample.truth.locks['self.lock'].address:#x}"
        number = {thread["lwp"]: thread["number"] for thread in session.document(0)["threads"]}[
            sample.truth.threads[sample.truth.locks["self.lock"].waiters[0]].tid]
        (holder,) = lock["holders"]
        assert (lock["kind"], lock["candidates"]) == ("mutex", [])
        assert (holder["thread"], holder["evidence"]) == (number, "derived")
        assert "pthread_mutex_lock()" in lock["why"]
        assert [deadlock["threads"] for deadlock in session.document(0)["deadlocks"]] == [[number]]
