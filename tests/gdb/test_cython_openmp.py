"""A Cython extension that hangs in `prange`: the main thread holds the GIL at the barrier, all others wait for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.support import cores, differential, openmp
from tests.support.hang import Hang

WORKERS = ("worker1", "worker2", "worker3")
CASES = list(itertools.product(("symbols", "stripped"), ("live", "kernel-core")))


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def hang(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hang]:
    """One session with every command; each test below checks a part of it."""
    build, target = request.param
    with openmp.start_cython(tmp_path_factory.mktemp("cython"), stripped=build == "stripped") as sample:
        core = cores.kernel_core(sample) if target == "kernel-core" else None
        where = [sample.executable, core] if core else ["-p", str(sample.pid)]
        commands = ["py-threads-locks --json", "py-deadlocks --json", "gil-holder --json", "py-deadlocks"]
        session = differential.batch(sample, where, commands, symbols=build == "symbols")
        yield Hang(build, sample.truth, session)
    if core:
        core.unlink()


def test_deadlock(hang: Hang) -> None:
    assert hang.session.status == 0
    for report in (hang.everything, hang.part(1)):
        (deadlock,) = report.document["deadlocks"]
        assert report.edges() == set(hang.truth.deadlock)
        assert {report.role(number) for number in deadlock["threads"]} == {"main", *WORKERS}
        assert deadlock["stuck_behind"] == []
        assert deadlock["evidence"] == "inferred"
        assert "not arrived" in deadlock["why"]


def test_locks(hang: Hang) -> None:
    report = hang.everything
    report.check_lock("barrier")
    gil = report.gil()
    assert (gil["state"], report.role(gil["holder"]), gil["evidence"]) == ("held", "main", "recorded")
    assert {report.role(number) for number in gil["waiters"]} == set(WORKERS)
    assert report.holds("main") == {("gil", "exclusive", "recorded")}
    for role in WORKERS:
        assert report.holds(role) == {("barrier", "exclusive", "inferred")}
        assert report.lock_name(report.thread(role)["waits"]["lock"]) == "gil"


def test_gil_holder(hang: Hang) -> None:
    gil = hang.part(2).gil()
    assert hang.everything.role(gil["holder"]) == "main"


def test_threads(hang: Hang) -> None:
    report = hang.everything
    for role, expected in hang.truth.threads.items():
        row = report.thread(role)
        assert row["lwp"] == expected.tid
        assert row["python_name"] == expected.python_name
        assert row["status"] == "blocked"
        assert report.python_stack(role) == expected.stack, role
    assert report.document["problems"] == []


def test_stack_of_the_main_thread_shows_the_extension(hang: Hang) -> None:
    stack = hang.everything.thread("main")["stack"]
    first = next(i for i, frame in enumerate(stack) if frame["language"] == "python")
    modules = [frame["module"] for frame in stack[:first]]
    assert modules[0].startswith("libgomp")
    assert modules[-1].startswith("cholesky.")


def test_text(hang: Hang) -> None:
    text = hang.session.outputs[3]
    assert "the GIL" in text
    assert "1 of 4 arrived" in text
    _, file, line = hang.truth.threads["main"].stack[0]
    assert f"{file}:{line}" in text
    assert "factor_batch" in text
