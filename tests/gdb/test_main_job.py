"""The deadlock of GIL and driver lock: what gdbext says of it, compared with what the program said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import combinations, cores, gdb_session, interpreters, samples, scenarios
from tests.support.hang import Hang
from tests.support.report import Report


@dataclass(frozen=True)
class RapidsHang(Hang):
    """What each of its commands is."""

    target: str
    free_threaded: bool

    @property
    def verdict(self) -> Report:
        """`py-deadlocks --json`."""
        return self.part(1)

    @property
    def gil_holder(self) -> Report:
        """`gil-holder --json`."""
        return self.part(2)

    @property
    def table_owner(self) -> Report:
        """`rwlock-owner ADDRESS --json`, `lock-owner ADDRESS --json` for the mutex."""
        return self.part(3)

    @property
    def waited_for(self) -> Report:
        """The same command without an address."""
        return self.part(4)

    @property
    def text(self) -> str:
        """`py-deadlocks`."""
        return self.session.outputs[5]


@pytest.fixture(scope="module", params=scenarios.RAPIDS_CASES, ids="-".join)
def hang(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RapidsHang]:
    """One session with every command; the tests below look at parts of it."""
    name, variant, target = request.param
    python, symbols = interpreters.use(name)
    with samples.rapids(python, variant, tmp_path_factory.mktemp("rapids"), interpreters.with_gil(name)) as sample:
        lock = sample.truth.locks["table"]
        owner = "lock-owner" if lock.kind == "mutex" else "rwlock-owner"
        commands = [
            "py-threads-locks --json",
            "py-deadlocks --json",
            "gil-holder --json",
            f"{owner} {lock.address:#x} --json",
            f"{owner} --json",
            "py-deadlocks",
        ]
        with cores.place(sample, python, target) as where:
            session = gdb_session.batch(where, commands, symbols=symbols)
        yield RapidsHang(variant, sample.truth, session, target, name in interpreters.FREE_THREADED_NAMES)


def test_no_command_fails(hang: RapidsHang) -> None:
    assert hang.session.status == 0
    for command in ("py-threads-locks", "py-deadlocks", "gil-holder", "rwlock-owner", "lock-owner"):
        assert hang.session.error_lines(command) == []
    assert "Traceback" not in hang.session.stderr


def test_target_and_runtime(hang: RapidsHang) -> None:
    document = hang.everything.document
    assert document["target"]["kind"] == ("live" if hang.target == "live" else "core")
    assert document["target"]["pid"] == hang.truth.pid
    (runtime,) = document["runtimes"]
    assert runtime["build"] == ("free-threaded" if hang.free_threaded else "default")
    assert [interpreter["id"] for interpreter in runtime["interpreters"]] == [0]


def test_threads(hang: RapidsHang) -> None:
    report = hang.everything
    assert {row["tid"] for row in report.document["threads"]} == {t.tid for t in hang.truth.threads.values()}
    for role, expected in hang.truth.threads.items():
        row = report.thread(role)
        assert row["lwp"] == expected.tid
        assert row["python_name"] == expected.python_name
        assert row["status"] == "blocked"
        # a wait for the GIL is cut into many short ones, and GDB may stop the thread between two of them
        between = role in hang.truth.locks["gil"].waiters and row["syscall"] is None
        assert between or row["syscall"] == expected.syscall
        assert row["python_state"] == ("attached" if role == "main" else "detached")


def test_python_stacks(hang: RapidsHang) -> None:
    report = hang.everything
    for role, expected in hang.truth.threads.items():
        assert report.python_stack(role) == expected.stack, role


def test_native_frames_lie_between_the_python_frames(hang: RapidsHang) -> None:
    report = hang.everything
    for role in hang.truth.threads:
        stack = report.thread(role)["stack"]
        languages = [frame["language"] for frame in stack]
        assert languages[0] == "native", "every thread sleeps in libc"
        first_python = languages.index("python")
        modules = [frame["module"] for frame in stack[:first_python]]
        assert any(module and module.endswith("libdrv.so") for module in modules), (
            f"{role} called from Python: {modules}"
        )


def test_table(hang: RapidsHang) -> None:
    hang.everything.check_lock("table")
    hang.table_owner.check_lock("table")


def test_table_is_found_without_its_address(hang: RapidsHang) -> None:
    hang.waited_for.check_lock("table")


def test_gil(hang: RapidsHang) -> None:
    expected = hang.truth.locks["gil"]
    for report in (hang.everything, hang.gil_holder):
        gil = report.gil()
        assert gil["state"] == "held"
        assert gil["evidence"] == "recorded"
        assert report.role(gil["holder"]) == "main"
        assert {report.role(number) for number in gil["waiters"]} == set(expected.waiters)


def test_what_threads_hold(hang: RapidsHang) -> None:
    report = hang.everything
    for role in hang.truth.threads:
        expected = {(name, lock.mode, lock.evidence) for name, lock in hang.truth.locks.items() if role in lock.holders}
        assert report.holds(role) == expected, role


def test_what_threads_wait_for(hang: RapidsHang) -> None:
    report = hang.everything
    for role, thread in hang.truth.threads.items():
        waits = report.thread(role)["waits"]
        if not thread.blocked:
            assert waits is None or waits["lock"].startswith("descriptor"), role
            continue
        (expected,) = [name for name, lock in hang.truth.locks.items() if role in lock.waiters]
        assert report.lock_name(waits["lock"]) == expected
        assert waits["mode"] == "exclusive"


def test_deadlock(hang: RapidsHang) -> None:
    for report in (hang.everything, hang.verdict):
        assert report.edges() == set(hang.truth.deadlock)
        deadlocks = report.document["deadlocks"]
        if not hang.truth.deadlock:
            assert deadlocks == []
            continue
        (deadlock,) = deadlocks
        assert {report.role(number) for number in deadlock["threads"]} == {edge[0] for edge in hang.truth.deadlock}
        assert deadlock["evidence"] == hang.truth.locks["table"].evidence
        assert (deadlock["why"] is None) == (deadlock["evidence"] == "recorded")
        assert deadlock["stuck_behind"] == []


def test_text_says_who_waits_where_for_what(hang: RapidsHang) -> None:
    assert "gil" in hang.text.lower()
    assert hang.truth.locks["table"].kind in hang.text.lower()
    for role in {waiter for waiter, _, _ in hang.truth.deadlock}:
        thread = hang.truth.threads[role]
        assert str(thread.python_name) in hang.text, role
        function, _, line = thread.stack[0]
        assert f"rapids.py:{line}" in hang.text, role
        assert function in hang.text, role
    assert ("derived" in hang.text) == (hang.truth.locks["table"].evidence == "derived")


@pytest.mark.parametrize("name", interpreters.MAIN_NAMES)
def test_a_waiter_of_the_gil_is_known_asleep_and_awake(name: str, tmp_path: Path) -> None:
    """It wakes every 5 ms: each look meets it somewhere else."""
    python, symbols = interpreters.use(name)
    with samples.rapids(python, "rwlock", tmp_path, interpreters.with_gil(name), still=False) as sample:
        looks = 10 if combinations.LONG else 4
        commands = ["py-deadlocks --json", "detach", f"attach {sample.pid}"] * looks
        session = gdb_session.batch(["-p", str(sample.pid)], commands, symbols=symbols)
    for document in map(session.document, range(0, len(commands), 3)):
        (deadlock,) = document["deadlocks"]
        assert deadlock["evidence"] in ("recorded", "derived")
        assert len(deadlock["threads"]) == 2
