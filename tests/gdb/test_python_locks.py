"""Python's own locks: the report compared with the program's truth."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import combinations, cores, gdb_session, interpreters, roots, samples
from tests.support.report import Report
from tests.support.samples import Sample

VARIANTS = ("waits", "deadlocks")
TARGETS = ("live", "gcore", "kernel-core")
CASES = [
    *combinations.cases(interpreters.MAIN_NAMES, VARIANTS, TARGETS),
    *itertools.product((*interpreters.FURTHER_NAMES, *interpreters.FREE_THREADED_NAMES), VARIANTS, ("live",)),
]
ROOT_CASES = list(itertools.product(("sid-3.13", "sid-3.14", "sid-3.15"), VARIANTS))
PROGRAM = samples.SOURCES / "pylocks.py"


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of the sample, and the facts that it printed in addition to its truth."""

    report: Report
    verdict: Report
    owner: Report
    more: dict[str, Any]

    @property
    def truth(self) -> samples.Truth:
        """The sample's truth."""
        return self.report.truth


def take_snapshot(sample: Sample, more: dict[str, Any], where: Sequence[str | Path], *, symbols: bool,
         gdb: Sequence[str | Path] = ()) -> Snapshot:
    """Run gdbext on the sample or its core."""
    one = next(iter(sample.truth.locks.values()))
    commands = ["py-threads-locks --stacks=none --json", "py-deadlocks --json", f"lock-owner {one.address:#x} --json"]
    session = gdb_session.batch(where, commands, symbols=symbols, directory=sample.directory, gdb=gdb)
    assert session.status == 0
    assert "Traceback" not in session.stderr
    report = Report(session.document(0), sample.truth)
    others = [Report(session.document(index), sample.truth, report.roles) for index in (1, 2)]
    return Snapshot(report, others[0], others[1], more)


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    """One snapshot; each test below checks a part of it."""
    name, variant, target = request.param
    python, symbols = interpreters.use(name)
    with samples.running([python, PROGRAM, variant], tmp_path_factory.mktemp("pylocks")) as sample:
        more = json.loads((sample.directory / "more.json").read_text())
        with cores.place(sample, python, target) as where:
            seen = take_snapshot(sample, more, where, symbols=symbols)
        yield seen


def test_report_is_complete(seen: Snapshot) -> None:
    assert seen.report.document["problems"] == []
    assert set(seen.report.roles.values()) == set(seen.truth.threads)


def test_locks(seen: Snapshot) -> None:
    check_locks(seen)


def check_locks(seen: Snapshot) -> None:
    for name in seen.truth.locks:
        seen.report.check_lock(name)
        assert seen.report.lock(name)["name"] == seen.more["names"].get(name), name
    seen.owner.check_lock(next(iter(seen.truth.locks)))


def test_numbers_of_queues(seen: Snapshot) -> None:
    check_queues(seen)


def check_queues(seen: Snapshot) -> None:
    found = {}
    for name in seen.truth.locks:
        code = seen.report.lock(name)["why_code"]
        for each in code["arguments"]["reasons"] if code is not None and code["code"] == "several" else ():
            if each["code"] == "queue-counts":
                found[name] = [each["arguments"][key] for key in ("waits", "unfinished", "maxsize", "queued")]
    assert found == seen.more["queues"]
    if "outbox" in found:
        assert [seen.report.lock(name)["why"].partition("; ")[0] for name in ("inbox", "outbox", "outbox-done")] == [
            "0 queued", "maxsize 1, 1 queued", "2 unfinished tasks, 1 queued"]


def test_places_where_locks_were_taken(seen: Snapshot) -> None:
    check_places(seen)


def check_places(seen: Snapshot) -> None:
    taken = {}
    for name in seen.truth.locks:
        for holder in seen.report.lock(name)["holders"]:
            place = holder["taken_at"]
            if place is not None:
                taken[name] = [place["function"], place["line"]]
            (hold,) = [hold for hold in seen.report.thread(seen.report.roles[holder["thread"]])["holds"]
                       if seen.report.lock_name(hold["lock"]) == name]
            assert hold["taken_at"] == place
    assert taken == seen.more["taken"]


def test_waits(seen: Snapshot) -> None:
    check_waits(seen)


def check_waits(seen: Snapshot) -> None:
    """Each thread that sleeps on a lock waits for one that the sample lists, and not for a part of it."""
    for role, thread in seen.truth.threads.items():
        waits = seen.report.thread(role)["waits"]
        if thread.syscall != "futex":
            assert waits is None or waits["lock"].startswith("descriptor:"), role
            continue
        expected = [name for name, lock in seen.truth.locks.items() if role in lock.waiters]
        assert [seen.report.lock_name(waits["lock"])] == expected, role
        assert waits["timed"] == (role in seen.more["timed"]), role
        assert waits["evidence"] == "recorded"


def test_deadlocks(seen: Snapshot) -> None:
    check_deadlocks(seen)


def check_deadlocks(seen: Snapshot) -> None:
    for report in (seen.report, seen.verdict):
        assert report.edges() == set(seen.truth.deadlock)
        behind = {report.role(number) for deadlock in report.document["deadlocks"]
                  for number in deadlock["stuck_behind"]}
        assert behind == set(seen.truth.stuck_behind)
        for deadlock in report.document["deadlocks"]:
            derived = {edge["lock"] for edge in deadlock["edges"]} & {
                lock.id for lock in seen.truth.locks.values() if lock.evidence == "derived"}
            assert deadlock["evidence"] == ("derived" if derived else "recorded")


@pytest.mark.parametrize(("name", "variant"), ROOT_CASES, ids=["-".join(case) for case in ROOT_CASES])
def test_python_of_debian(name: str, variant: str, tmp_path: Path) -> None:
    """Newer interpreters with other lock words: the release's GDB and this machine's, the process and its core."""
    root = roots.use_python(name)
    with samples.running([root.python, PROGRAM, variant], tmp_path, place=root.place,
                         variables=dict(root.variables)) as sample:
        more = json.loads((sample.directory / "more.json").read_text())
        attach = ["-p", str(sample.pid)]
        snapshots = [take_snapshot(sample, more, attach, symbols=False, gdb=gdb) for gdb in (root.gdb, ())]
        core = cores.kernel_core(sample)
        snapshots.append(take_snapshot(sample, more, [sample.executable, core], symbols=False, gdb=root.gdb))
        outside: list[str | Path] = [*root.sysroot, root.outside(sample.executable), core]
        snapshots.append(take_snapshot(sample, more, outside, symbols=False))
        core.unlink()
    for seen in snapshots:
        check_locks(seen)
        check_queues(seen)
        check_places(seen)
        check_waits(seen)
        check_deadlocks(seen)
