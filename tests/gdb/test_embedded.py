"""Python inside of another program: the verdict is right, and the program's own frames are not taken for Python's."""

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
class Look:
    """What gdbext says of the program."""

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
def look(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
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
        yield Look(sample.truth, session, sample.executable.name, linked, stripped)
    if core:
        core.unlink()


def test_verdict(look: Look) -> None:
    assert look.session.status == 0
    assert "Traceback" not in look.session.stderr
    report = look.report
    assert report.document["problems"] == []
    for found in (report, Report(look.session.document(1), look.truth, report.roles)):
        assert found.edges() == set(look.truth.deadlock)
        (deadlock,) = found.document["deadlocks"]
        assert deadlock["evidence"] == "recorded"
    for name in look.truth.locks:
        report.check_lock(name)
    for role, thread in look.truth.threads.items():
        assert report.thread(role)["python_name"] == thread.python_name
        assert report.python_stack(role) == thread.stack, role


def test_frames_of_the_program_lie_between_those_of_python(look: Look) -> None:
    if look.stripped:
        pytest.skip("a stripped program has no function names to compare")
    assert look.own_frames("main") == ["app_native", "handle", "app_dispatch", "serve", "app_serve", "app_main"]
    assert look.own_frames("worker") == ["app_event", "app_worker"]
    assert "app_native" in look.session.outputs[2]
    assert "app_event" in look.session.outputs[2]


def test_frames_without_names_are_not_lost(look: Look) -> None:
    """They are known by the file they belong to, as long as the interpreter is in another."""
    if look.linked != "shared":
        pytest.skip("a statically linked interpreter is in the program's own file")
    groups = list_groups(look.report.thread("main")["stack"], look.program)
    # app_native; handle(); app_dispatch; serve(); app_serve, app_main, main and whatever calls that
    assert [kind for kind, _ in groups] == ["program", "python", "program", "python", "program"]
    assert [count for _, count in groups][:4] == [1, 1, 1, 1]
    assert groups[-1][1] >= 3


def test_frames_of_the_interpreter_are_left_out(look: Look) -> None:
    for role in look.truth.threads:
        for frame in look.report.thread(role)["stack"]:
            assert frame["function"] != "_PyEval_EvalFrameDefault" or frame["language"] == "python"
            if look.linked == "shared" and role == "main":
                assert frame["language"] == "python" or not str(frame["module"]).startswith("libpython")


def list_groups(stack: list[Json], program: str) -> list[tuple[str, int]]:
    """Runs of Python frames and of frames in the program's file, other frames left out."""
    kinds = [
        "python" if frame["language"] == "python" else "program"
        for frame in stack
        if frame["language"] == "python" or frame["module"] == program
    ]
    return [(kind, len(list(run))) for kind, run in itertools.groupby(kinds)]
