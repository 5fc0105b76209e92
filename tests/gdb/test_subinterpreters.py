"""Several interpreters in one process: every GIL is reported once, with the threads that hold it and want it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support import cores, embedding, gdb_session, interpreters, scenarios
from tests.support.report import Json, Report
from tests.support.samples import Truth

TARGETS = ("live", "kernel-core")


@dataclass(frozen=True)
class Look:
    """What gdbext says of the program."""

    variant: str
    truth: Truth
    session: gdb_session.Result

    @property
    def report(self) -> Report:
        """`py-threads-locks --json`."""
        return Report(self.session.document(0), self.truth)

    def gils(self, index: int = 0) -> dict[int, Json]:
        """What a document says of each interpreter's GIL."""
        (runtime,) = self.session.document(index)["runtimes"]
        found = {interpreter["id"]: interpreter["gil"] for interpreter in runtime["interpreters"]}
        assert len(found) == len(runtime["interpreters"]), "an interpreter is listed twice"
        return found


@pytest.fixture(
    scope="module",
    params=[(*case, target) for case, target in itertools.product(scenarios.SUBINTERPRETERS, TARGETS)],
    ids=lambda param: "-".join(param),
)
def look(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    name, variant, target = request.param
    _, symbols = interpreters.use(name)
    with embedding.subinterpreters(name, variant, tmp_path_factory.mktemp("subinterpreters")) as sample:
        core = cores.kernel_core(sample) if target != "live" else None
        session = gdb_session.batch(
            ["-p", str(sample.pid)] if core is None else [sample.executable, core],
            ["py-threads-locks --json", "py-deadlocks --json", "gil-holder --json", "gil-holder", "py-deadlocks"],
            symbols=symbols,
        )
        yield Look(variant, sample.truth, session)
    if core:
        core.unlink()


def test_no_command_fails(look: Look) -> None:
    assert look.session.status == 0
    assert "Traceback" not in look.session.stderr
    assert look.report.document["problems"] == []


def test_every_gil_is_reported_once(look: Look) -> None:
    rows = [row for row in look.report.document["locks"] if row["kind"] == "gil"]
    assert len(rows) == len({row["address"] for row in rows}) == (3 if look.variant == "own" else 1)
    gils = look.gils()
    assert sorted(gils) == {"shared": [0, 1], "ended": [0], "own": [0, 1, 2]}[look.variant]
    assert {gil["address"] for gil in gils.values()} == {row["address"] for row in rows}


@pytest.mark.parametrize("index", [0, 2], ids=["py-threads-locks", "gil-holder"])
def test_holders_and_waiters_of_each_gil(look: Look, index: int) -> None:
    roles = look.report.roles
    known = {lock.interpreter: lock for lock in look.truth.locks.values() if lock.kind == "gil"}
    for number, gil in look.gils(index).items():
        expected = known.get(number) if look.variant == "own" else known[0]
        if expected is None:
            assert (gil["state"], gil["holder"], gil["waiters"]) == ("free", None, [])
            continue
        assert gil["state"] == expected.state
        assert gil["evidence"] == "recorded"
        assert (roles[gil["holder"]],) == expected.holders
        assert {roles[waiter] for waiter in gil["waiters"]} == set(expected.waiters)


def test_locks(look: Look) -> None:
    report = look.report
    for name in look.truth.locks:
        report.check_lock(name)
    for role in look.truth.threads:
        held = {(name, lock.mode, lock.evidence) for name, lock in look.truth.locks.items() if role in lock.holders}
        assert report.holds(role) == held, role


def test_threads(look: Look) -> None:
    report = look.report
    assert set(report.roles.values()) == set(look.truth.threads)
    for role, thread in look.truth.threads.items():
        row = report.thread(role)
        assert row["status"] == "blocked"
        assert row["python_name"] == thread.python_name
        assert report.python_stack(role) == thread.stack, role


def test_deadlock(look: Look) -> None:
    report = look.report
    for found in (report, Report(look.session.document(1), look.truth, report.roles)):
        assert found.edges() == set(look.truth.deadlock)
        (deadlock,) = found.document["deadlocks"]
        assert {report.role(number) for number in deadlock["threads"]} == {edge[0] for edge in look.truth.deadlock}
        assert deadlock["evidence"] == "recorded"
        assert deadlock["stuck_behind"] == []


def test_text_tells_the_gils_apart(look: Look) -> None:
    """With one GIL it is "the GIL"; of several one must be told which."""
    holders = [line for line in look.session.outputs[3].splitlines() if "held by" in line]
    assert holders
    if look.variant == "own":
        mentioned = {line for line in look.session.outputs[4].splitlines() if "holds" in line and "GIL" in line}
        assert len(mentioned) == 2, "two GILs are held, and are not called the same"
