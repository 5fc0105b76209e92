"""Reports that look like known bugs, and those that do not."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import pytest

from gdbext.known import match
from gdbext.known.fingerprint import Fingerprint, TaskPrint, ThreadPrint
from gdbext.known.match import known_bugs
from gdbext.model import Awaited, Deadlock, Edge, Hold, Lock, PyFrame, Report, Runtime, TargetInfo, Task, Thread, Wait
from gdbext.model.known import KnownBug
from gdbext.model.reasons import because
from gdbext.model.verdict import Verdict

FILE = "/venv/site-packages/redis/connection.py"
STUCK = Verdict("deadlock", (1,))
BUG = Fingerprint(
    "a/b#1", "a title", "https://github.com/a/b/1", "Redis", "1.0", ("1.1",), ("1.3",), "2026-11-29", ("deadlock",),
    (ThreadPrint(("py-lock",), ("gil",), (("release", "redis/connection.py"), ("get", "redis/connection.py"))),
     ThreadPrint(("gil",))), reasons=("in-with-block",), workaround="do not")


def frames(*functions: str, file: str = FILE) -> tuple[PyFrame, ...]:
    return tuple([PyFrame(function, function, file, 1) for function in functions])


def report(**changes: object) -> Report:
    one = Thread(1, 11, 11, "a", holds=(Hold("gil:0", "exclusive", "recorded"),),
                 waits=Wait("py-lock:0x10", "exclusive", False), stack=frames("acquire", "release", "helper", "get"))
    two = Thread(2, 12, 12, "b", waits=Wait("gil:0", "exclusive", False))
    locks = (Lock("gil:0", "gil", 1, None, "held"), Lock("py-lock:0x10", "py-lock", 0x10, None, "locked"))
    edge = Edge(1, "py-lock:0x10", 1, "derived", because("in-with-block"))
    made = Report(TargetInfo("live", 11, None, "x86_64", None), threads=(one, two), locks=locks,
                  deadlocks=(Deadlock((1,), "derived", (edge,)),))
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def only_one_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "fingerprints", lambda: (BUG,))


def found(of: Report, verdict: Verdict = STUCK, version: str | None = "1.1") -> tuple[KnownBug, ...]:
    def versions(files: Collection[str]) -> Iterable[tuple[str, str]]:
        assert set(files) == {FILE}
        return [("other", "9"), ("redis", version)] if version is not None else []

    return known_bugs(of, verdict, versions)


def test_all_facts_agree() -> None:
    assert found(report()) == (
        KnownBug("a/b#1", "a title", "https://github.com/a/b/1", "Redis", "1.1", "1.3", 7, 7, "do not"),)


def test_the_version() -> None:
    assert found(report(), version="1.3") == ()
    between, = found(report(), version="1.2")
    unknown, = found(report(), version=None)
    assert (between.agree, between.version) == (6, "1.2")
    assert (unknown.agree, unknown.version) == (6, None)


def test_a_fact_that_does_not_agree() -> None:
    whole = report()
    one, two = whole.threads
    for changed in (
            replace(whole, threads=(replace(one, holds=()), two)),
            replace(whole, threads=(replace(one, waits=None), two)),
            replace(whole, threads=(replace(one, waits=Wait("gil:0", "exclusive", False)), two)),
            replace(whole, threads=(replace(one, stack=frames("get", "release")), two)),  # in another order
            replace(whole, threads=(replace(one, stack=frames("release", "get", file="/app/connection.py")), two)),
            replace(whole, threads=(replace(one, stack=frames("release", "get", file="/xredis/connection.py")), two)),
            replace(whole, threads=(one,)),
            replace(whole, deadlocks=(Deadlock((1,), "derived", (Edge(1, "py-lock:0x10", 1),)),))):
        assert found(changed) == ()
    assert found(whole, Verdict("standstill", (1,))) == ()
    assert found(replace(whole, deadlocks=()), Verdict("deadlock", (2,))) == ()


def test_one_thread_is_not_taken_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    both = replace(BUG, threads=(ThreadPrint(("py-lock",)), ThreadPrint((), ("gil",))))
    monkeypatch.setattr(match, "fingerprints", lambda: (both,))
    assert known_bugs(report(), STUCK, lambda files: [("redis", "1.1")]) == ()


def test_a_program_that_does_not_hang() -> None:
    assert found(report(), Verdict("idle")) == found(report(), Verdict("unknown")) == ()


def test_tasks_and_the_version_of_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    task_print = TaskPrint(("anyio.Lock",), (("acquire", "redis/connection.py"),), True)
    bug = replace(BUG, package="CPython", threads=(), reasons=(), verdicts=("standstill",), since="3.11",
                  hangs=("3.12.1",), ends=("3.13.15",), tasks=(task_print,))
    monkeypatch.setattr(match, "fingerprints", lambda: (bug,))
    task = Task(1, "a", 2, 1, "pending", frames("acquire"), Awaited(kind="anyio.Lock"))
    runtime = Runtime("3.12.0", "default", 0, "", "python3", ())
    of = report(tasks=(task,), runtimes=(runtime,))
    known, = known_bugs(of, Verdict("standstill", (1,)), lambda files: ())
    assert (known.agree, known.facts, known.version) == (5, 5, "3.12.0")
    held = replace(task, awaits=Awaited(kind="anyio.Lock", holders=(3,)))
    other = replace(task, awaits=Awaited(kind="anyio.Event"))
    for changed in (held, other):
        assert known_bugs(replace(of, tasks=(changed,)), Verdict("standstill", (1,)), lambda files: ()) == ()
    two = replace(of, runtimes=(runtime, replace(runtime, version="3.11.2")))
    assert [bug.version for bug in known_bugs(two, Verdict("standstill", (1,)), lambda files: ())] == [None]
