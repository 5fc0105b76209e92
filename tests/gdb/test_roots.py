"""gdbext in other Debian releases with their GDB, Python and glibc, across releases, and in other GDBs.

Every snapshot of a program must give the same report, which matches the program's truth.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import cores, gdb_session, interpreters, locks, roots, samples, scenarios
from tests.support.report import Report
from tests.support.roots import Root
from tests.support.samples import Sample

CASES = list(itertools.product(interpreters.SUITES, scenarios.ROOT_SCENARIOS))


def start(root: Root, scenario: tuple[str, str], directory: Path) -> AbstractContextManager[Sample]:
    """Run a sample in the root."""
    sample, variant = scenario
    if sample == "abba":
        return samples.abba(variant, directory, stripped=True, place=root.place)
    return samples.rapids(root.python, variant, directory, place=root.place)


@dataclass(frozen=True)
class Way:
    """One way to inspect a program: where GDB runs, and its arguments."""

    where: Sequence[str | Path]
    gdb: Sequence[str | Path] = ()
    symbols: bool = False

    def check(self, sample: Sample, libc: str) -> Report:
        """Run gdbext and compare its report with the sample's truth."""
        session = gdb_session.batch(
            self.where,
            ["py-threads-locks --json", "py-deadlocks --json"],
            symbols=self.symbols,
            # in-root makes this directory visible inside the tree
            directory=sample.directory,
            gdb=self.gdb,
        )
        assert session.error_lines("py-threads-locks") == []
        assert session.error_lines("py-deadlocks") == []
        assert "Traceback" not in session.stderr
        assert session.status == 0
        report = Report(session.document(0), sample.truth)
        assert report.document["problems"] == []
        assert report.document["target"]["libc"] == libc
        check_threads(report)
        check_locks(report)
        check_deadlocks(report)
        check_deadlocks(Report(session.document(1), sample.truth, report.roles))
        return report


def check_threads(report: Report) -> None:
    truth = report.truth
    assert report.document["target"]["pid"] == truth.pid
    assert {row["tid"] for row in report.document["threads"]} == {thread.tid for thread in truth.threads.values()}
    for role, expected in truth.threads.items():
        row = report.thread(role)
        assert row["lwp"] == expected.tid
        assert row["python_name"] == expected.python_name
        assert row["status"] == "blocked"
        assert report.python_stack(role) == expected.stack, role


def check_locks(report: Report) -> None:
    truth = report.truth
    assert len(report.document["runtimes"]) == ("gil" in truth.locks)
    for name, expected in truth.locks.items():
        if expected.kind != "gil":
            report.check_lock(name)
            continue
        gil = report.gil()
        assert gil["state"] == expected.state
        assert gil["evidence"] == expected.evidence
        assert (report.role(gil["holder"]),) == expected.holders
        assert {report.role(number) for number in gil["waiters"]} == set(expected.waiters)
    for role in truth.threads:
        held = {(name, lock.mode, lock.evidence) for name, lock in truth.locks.items() if role in lock.holders}
        assert report.holds(role) == held, role


def check_deadlocks(report: Report) -> None:
    truth = report.truth
    assert report.edges() == set(truth.deadlock)
    assert len(report.document["deadlocks"]) == bool(truth.deadlock)
    for deadlock in report.document["deadlocks"]:
        assert {report.role(number) for number in deadlock["stuck_behind"]} == set(truth.stuck_behind)
        known = {lock.evidence for lock in truth.locks.values()}
        assert deadlock["evidence"] == next((each for each in ("inferred", "derived") if each in known), "recorded")


@pytest.mark.parametrize(("suite", "scenario"), CASES, ids=["-".join([s, *scenario]) for s, scenario in CASES])
def test_other_debian(suite: str, scenario: tuple[str, str], tmp_path: Path) -> None:
    """The release's GDB and this machine's: one on the process, the other on its core."""
    root = roots.use(suite)
    turn = interpreters.SUITES.index(suite) + scenarios.ROOT_SCENARIOS.index(scenario)
    with start(root, scenario, tmp_path) as sample:
        inspect_in_each_way(root, sample, ways=root.ways(turn))


@pytest.mark.parametrize("variant", samples.ABBA_VARIANTS)
@pytest.mark.parametrize("suite", interpreters.OLD_SUITES)
def test_older_glibc(suite: str, variant: str, tmp_path: Path) -> None:
    """Releases with other algorithms or layouts in glibc, most of them with a GDB that is too old."""
    root = roots.use(suite)
    if suite == "xenial" and variant == "mutex" and locks.elides_locks():
        pytest.skip("glibc 2.23 elides locks on a processor with RTM and then records no owner")
    with start(root, ("abba", variant), tmp_path) as sample:
        inspect_in_each_way(root, sample)


def inspect_in_each_way(
    root: Root, sample: Sample, symbols: Sequence[bool] = (False,), ways: Sequence[str] = roots.WAYS
) -> list[Report]:
    """The release's GDB, if it is new enough, and this machine's, on the process and its core; the sample ends."""
    attach = ["-p", str(sample.pid)]
    gdbs = [gdb for way, gdb in (("live, its GDB", root.gdb), ("live", ())) if way in ways and (gdb or way == "live")]
    used = [Way(attach, gdb, known) for known in symbols for gdb in gdbs]
    reports = [way.check(sample, root.libc) for way in used]
    core = cores.kernel_core(sample)
    outside: list[str | Path] = [*root.sysroot, root.outside(sample.executable), core]
    for known in symbols:
        if root.gdb and "core, its GDB" in ways:
            reports.append(Way([sample.executable, core], root.gdb, known).check(sample, root.libc))
        if "core" in ways:
            reports.append(Way(outside, (), known).check(sample, root.libc))
    core.unlink()
    return reports




@pytest.mark.parametrize(("name", "variant"), scenarios.ROOT_PYTHON_CASES,
                         ids=["-".join(case) for case in scenarios.ROOT_PYTHON_CASES])
def test_other_debian_pythons(name: str, variant: str, tmp_path: Path) -> None:
    """Interpreters that only Debian builds: newer versions, with a JIT, with Py_DEBUG."""
    root = roots.use_python(name)
    # Debian has detached symbols only for its debug builds
    symbols = (False, True) if name.endswith("-dbg") else (False,)
    with samples.rapids(
        root.python, variant, tmp_path, place=root.place, variables=dict(root.variables)
    ) as sample:
        inspect_in_each_way(root, sample, symbols)


@pytest.mark.parametrize("name", [name for name in interpreters.ROOT_PYTHONS if name.endswith("-jit")])
def test_frames_of_a_jit(name: str, tmp_path: Path) -> None:
    """The main thread hangs in code that Python's JIT compiled, which is not in a file; the report is complete."""
    root = roots.use_python(name)
    with samples.hot(root.python, tmp_path, place=root.place, variables=dict(root.variables)) as sample:
        reports = inspect_in_each_way(root, sample)
    for report in reports:
        stack = report.thread("main")["stack"]
        assert stack[-1]["module"], "the stack is whole"
        kinds = [frame["language"] for frame in stack]
        inner = stack[:kinds.index("python")]
        assert [frame["function"] for frame in inner if frame["module"] == "libdrv.so" and frame["function"]]
        made = [frame for frame in stack if frame["language"] == "native" and frame["module"] is None]
        assert made == inner[-1:], "one frame of the JIT, just inside the function that it was made for"


@pytest.mark.parametrize("suite", interpreters.SUITES)
def test_core_with_wrong_libraries(suite: str, tmp_path: Path) -> None:
    """Without a sysroot GDB uses this machine's libraries, from which nothing may be concluded."""
    root = roots.use(suite)
    with start(root, ("rapids", "readers"), tmp_path) as sample:
        core = cores.kernel_core(sample)
        tids = {thread.tid for thread in sample.truth.threads.values()}
        session = gdb_session.batch(
            [root.outside(sample.executable), core], ["py-threads-locks --json", "py-deadlocks"], symbols=False)
    assert session.status != 0
    (line,) = session.error_lines("py-deadlocks")
    assert "not the files that the core was made with" in line
    assert "sysroot" in line
    document = session.document(0)
    assert {row["lwp"] for row in document["threads"]} == tids
    assert document["deadlocks"] == []
    assert "libc" in str(document["problems"])
    assert "cannot be determined" in session.outputs[1]
    assert "no deadlock" not in session.outputs[1]


@pytest.mark.parametrize("name", interpreters.GDBS)
def test_other_gdb(name: str, tmp_path: Path) -> None:
    """Another GDB on a process of this machine and on its core."""
    gdb = [roots.use_gdb(name)]
    python, _ = interpreters.use(f"{interpreters.ANY}-stripped")
    libc = str(os.confstr("CS_GNU_LIBC_VERSION"))
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        Way(["-p", str(sample.pid)], gdb).check(sample, libc)
        core = cores.kernel_core(sample)
        Way([python, core], gdb).check(sample, libc)
    core.unlink()
