"""Deadlocks of programs without Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cores, gdb_session, samples
from tests.support.hang import Hang
from tests.support.report import Report

BUILDS = ("symbols", "stripped")
TARGETS = ("live", "gcore", "kernel-core")
CASES = list(itertools.product(BUILDS, samples.ABBA_VARIANTS, TARGETS))
# pthread_rwlock_t: the futex word of writers that wait for a writer
WRITERS_FUTEX = 12


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def hang(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hang]:
    """One session with every command; each test below checks a part of it."""
    build, variant, target = request.param
    stripped = build == "stripped"
    with samples.abba(variant, tmp_path_factory.mktemp("abba"), stripped=stripped) as sample:
        core = None
        where: list[str | Path] = ["-p", str(sample.pid)]
        if target != "live":
            core = cores.gdb_core(sample) if target == "gcore" else cores.kernel_core(sample)
            where = [sample.executable, core]
        one = sample.truth.locks["one"].address
        commands = [
            "py-threads-locks --json",
            "py-deadlocks --json",
            f"lock-owner {one:#x} --json",
            "lock-owner --json",
            "py-deadlocks",
        ]
        session = gdb_session.batch(where, commands, symbols=not stripped)
        yield Hang(variant, sample.truth, session)
    if core:
        core.unlink()


def test_threads(hang: Hang) -> None:
    report = hang.everything
    assert hang.session.status == 0
    assert report.document["runtimes"] == []
    for role, expected in hang.truth.threads.items():
        row = report.thread(role)
        assert row["lwp"] == expected.tid
        assert (row["python_name"], row["tstate"], row["python_state"]) == (None, None, None)
        assert (row["status"], row["syscall"]) == ("blocked", "futex")
        assert {frame["language"] for frame in row["stack"]} == {"native"}


def test_locks(hang: Hang) -> None:
    for name in hang.truth.locks:
        hang.everything.check_lock(name)
        hang.part(3).check_lock(name)
    hang.part(2).check_lock("one")


def test_deadlock(hang: Hang) -> None:
    for report in (hang.everything, hang.part(1)):
        (deadlock,) = report.document["deadlocks"]
        assert report.edges() == set(hang.truth.deadlock)
        assert {report.role(number) for number in deadlock["threads"]} == {"first", "second"}
        assert deadlock["evidence"] == "recorded"


def test_main_thread_is_stuck_behind_the_cycle(hang: Hang) -> None:
    report = hang.everything
    waits = report.thread("main")["waits"]
    assert waits["lock"].startswith("thread-exit:")
    (deadlock,) = report.document["deadlocks"]
    assert [report.role(number) for number in deadlock["stuck_behind"]] == ["main"]


def test_text(hang: Hang) -> None:
    text = hang.session.outputs[4]
    for lock in hang.truth.locks.values():
        assert lock.kind in text.lower()
        assert f"{lock.address:x}" in text
    for role in ("first", "second"):
        number = hang.everything.thread(role)["number"]
        assert str(number) in text
        assert str(hang.truth.threads[role].tid) in text


def test_inner_address_of_an_rwlock_finds_the_lock(tmp_path: Path) -> None:
    """A backtrace shows users the futex word, not the address of its lock."""
    with samples.abba("rwlock", tmp_path) as sample:
        base = sample.truth.locks["one"].address
        assert base is not None
        inner = base + WRITERS_FUTEX
        session = gdb_session.batch(
            ["-p", str(sample.pid)],
            [
                "py-threads-locks --json",
                f"rwlock-owner {inner:#x} --json",
                f"rwlock-owner {inner:#x}",
                "rwlock-owner &table_lock.__data.__writers_futex",
            ],
        )
    assert session.status == 0
    roles = Report(session.document(0), sample.truth).roles
    Report(session.document(1), sample.truth, roles).check_lock("one")
    for text in session.outputs[2:]:
        assert f"{base:#x}" in text
        assert f"{inner:#x}" in text, "the answer is about another address than was asked for, and must say so"


@pytest.mark.parametrize(
    ("variant", "expression", "name"),
    [
        ("rwlock", "&table_lock", "one"),
        ("rwlock", "(char *) &index_lock + 0", "other"),
        ("mutex", "&stock_mutex", "one"),
        ("mutex", "&order_mutex", "other"),
    ],
)
def test_address_may_be_an_expression(tmp_path: Path, variant: str, expression: str, name: str) -> None:
    with samples.abba(variant, tmp_path) as sample:
        session = gdb_session.batch(
            ["-p", str(sample.pid)],
            ["py-threads-locks --json", f"lock-owner --json {expression}"]
            + (["rwlock-owner --json " + expression] if variant == "rwlock" else []),
        )
    assert session.status == 0
    roles = Report(session.document(0), sample.truth).roles
    for index in range(1, len(session.commands)):
        Report(session.document(index), sample.truth, roles).check_lock(name)
