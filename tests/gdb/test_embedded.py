"""Python embedded in another program: the verdict, and the distinction between the program's and Python's frames."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support import cores, embedding, gdb_session, interpreters, scenarios
from tests.support.report import Json, Report
from tests.support.samples import Truth

CASES = [(*build, target) for build, target in itertools.product(scenarios.EMBEDDED, ("live", "kernel-core"))]
NAMES = {"app_native", "app_dispatch", "app_serve", "app_main", "app_worker", "app_event"}


@dataclass(frozen=True)
class Snapshot:
    """What gdbext reports about the program."""

    truth: Truth
    session: gdb_session.Result
    program: str
    linked: str
    stripped: bool

    @property
    def report(self) -> Report:
        """`py-threads-locks --json`."""
        return Report(self.session.document(0), self.truth)

    def own_frames(self, role: str) -> list[str]:
        """Names of a thread's Python functions and of the program's own functions, innermost first."""
        return [
            frame["function"]
            for frame in self.report.thread(role)["stack"]
            if frame["language"] == "python" or frame["function"] in NAMES
        ]


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def snapshot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    name, linked, target = request.param
    stripped = name.endswith("-stripped") or linked.endswith("-stripped")
    _, symbols = interpreters.use(name)
    directory = tmp_path_factory.mktemp("embed")
    with embedding.embed(name, directory, static=linked != "shared", strip=stripped) as sample:
        core = cores.kernel_core(sample) if target != "live" else None
        session = gdb_session.batch(
            ["-p", str(sample.pid)] if core is None else [sample.executable, core],
            ["py-threads-locks --json", "py-deadlocks --json", "py-deadlocks"],
            symbols=symbols and not stripped,
        )
        yield Snapshot(sample.truth, session, sample.executable.name, linked, stripped)
    if core:
        core.unlink()


def test_verdict(snapshot: Snapshot) -> None:
    assert snapshot.session.status == 0
    assert "Traceback" not in snapshot.session.stderr
    report = snapshot.report
    assert report.document["problems"] == []
    for found in (report, Report(snapshot.session.document(1), snapshot.truth, report.roles)):
        assert found.edges() == set(snapshot.truth.deadlock)
        (deadlock,) = found.document["deadlocks"]
        assert deadlock["evidence"] == "recorded"
    for name in snapshot.truth.locks:
        report.check_lock(name)
    for role, thread in snapshot.truth.threads.items():
        assert report.thread(role)["python_name"] == thread.python_name
        assert report.python_stack(role) == thread.stack, role


def test_program_frames_are_between_python_frames(snapshot: Snapshot) -> None:
    if snapshot.stripped:
        pytest.skip("a stripped program has no function names to compare")
    assert snapshot.own_frames("main") == ["app_native", "handle", "app_dispatch", "serve", "app_serve", "app_main"]
    assert snapshot.own_frames("worker") == ["app_event", "app_worker"]
    assert "app_native" in snapshot.session.outputs[2]
    assert "app_event" in snapshot.session.outputs[2]


def test_frames_without_names_are_listed(snapshot: Snapshot) -> None:
    """They are identified by their file, provided that the interpreter is in another file."""
    if snapshot.linked != "shared":
        pytest.skip("a statically linked interpreter is in the program's own file")
    groups = list_groups(snapshot.report.thread("main")["stack"], snapshot.program)
    # app_native; handle(); app_dispatch; serve(); app_serve, app_main, main and its callers
    assert [kind for kind, _ in groups] == ["program", "python", "program", "python", "program"]
    assert [count for _, count in groups][:4] == [1, 1, 1, 1]
    assert groups[-1][1] >= 3


def test_interpreter_frames_are_hidden(snapshot: Snapshot) -> None:
    for role in snapshot.truth.threads:
        for frame in snapshot.report.thread(role)["stack"]:
            assert frame["function"] != "_PyEval_EvalFrameDefault" or frame["language"] == "python"
            if snapshot.linked == "shared" and role == "main":
                assert frame["language"] == "python" or not str(frame["module"]).startswith("libpython")


def list_groups(stack: list[Json], program: str) -> list[tuple[str, int]]:
    """Runs of Python frames and of frames in the program's file, without other frames."""
    kinds = [
        "python" if frame["language"] == "python" else "program"
        for frame in stack
        if frame["language"] == "python" or frame["module"] == program
    ]
    return [(kind, len(list(run))) for kind, run in itertools.groupby(kinds)]
