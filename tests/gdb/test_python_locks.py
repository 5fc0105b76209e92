"""Python's own locks: what gdbext says of them, compared with what the program said."""

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
class Look:
    """A look at the sample, and what the sample told besides its truth."""

    report: Report
    verdict: Report
    owner: Report
    more: dict[str, Any]

    @property
    def truth(self) -> samples.Truth:
        """What the sample said of itself."""
        return self.report.truth


def look(sample: Sample, more: dict[str, Any], where: Sequence[str | Path], *, symbols: bool,
         gdb: Sequence[str | Path] = ()) -> Look:
    """Run gdbext on the sample or its core."""
    one = next(iter(sample.truth.locks.values()))
    commands = ["py-threads-locks --stacks=none --json", "py-deadlocks --json", f"lock-owner {one.address:#x} --json"]
    session = gdb_session.batch(where, commands, symbols=symbols, directory=sample.directory, gdb=gdb)
    assert session.status == 0
    assert "Traceback" not in session.stderr
    report = Report(session.document(0), sample.truth)
    others = [Report(session.document(index), sample.truth, report.roles) for index in (1, 2)]
    return Look(report, others[0], others[1], more)


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    """One look; the tests below compare parts of it."""
    name, variant, target = request.param
    python, symbols = interpreters.use(name)
    with samples.running([python, PROGRAM, variant], tmp_path_factory.mktemp("pylocks")) as sample:
        more = json.loads((sample.directory / "more.json").read_text())
        with cores.place(sample, python, target) as where:
            seen = look(sample, more, where, symbols=symbols)
        yield seen


def test_everything_was_told(seen: Look) -> None:
    assert seen.report.document["problems"] == []
    assert set(seen.report.roles.values()) == set(seen.truth.threads)


def test_locks(seen: Look) -> None:
    check_locks(seen)


def check_locks(seen: Look) -> None:
    for name in seen.truth.locks:
        seen.report.check_lock(name)
        assert seen.report.lock(name)["name"] == seen.more["names"].get(name), name
    seen.owner.check_lock(next(iter(seen.truth.locks)))


def test_where_locks_were_taken(seen: Look) -> None:
    check_places(seen)


def check_places(seen: Look) -> None:
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


def test_waits(seen: Look) -> None:
    check_waits(seen)


def check_waits(seen: Look) -> None:
    """Each thread that sleeps on a lock is said to wait for one that the sample knows, and for no part of it."""
    for role, thread in seen.truth.threads.items():
        waits = seen.report.thread(role)["waits"]
        if thread.syscall != "futex":
            assert waits is None or waits["lock"].startswith("descriptor:"), role
            continue
        expected = [name for name, lock in seen.truth.locks.items() if role in lock.waiters]
        assert [seen.report.lock_name(waits["lock"])] == expected, role
        assert waits["timed"] == (role in seen.more["timed"]), role
        assert waits["evidence"] == "recorded"


def test_deadlocks(seen: Look) -> None:
    check_deadlocks(seen)


def check_deadlocks(seen: Look) -> None:
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
    """Newer interpreters, whose locks are other words: by its own GDB and this machine's, the process and its core."""
    root = roots.use_python(name)
    with samples.running([root.python, PROGRAM, variant], tmp_path, place=root.place,
                         variables=dict(root.variables)) as sample:
        more = json.loads((sample.directory / "more.json").read_text())
        attach = ["-p", str(sample.pid)]
        looks = [look(sample, more, attach, symbols=False, gdb=gdb) for gdb in (root.gdb, ())]
        core = cores.kernel_core(sample)
        looks.append(look(sample, more, [sample.executable, core], symbols=False, gdb=root.gdb))
        outside: list[str | Path] = [*root.sysroot, root.outside(sample.executable), core]
        looks.append(look(sample, more, outside, symbols=False))
        core.unlink()
    for seen in looks:
        check_locks(seen)
        check_places(seen)
        check_waits(seen)
        check_deadlocks(seen)
