"""The verdicts of the score: right, silent and false."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.precision.harness import FALSE, RIGHT, SILENT, Json, Program, Score, judge, unexpected

THREADS = {101: "main", 102: "worker", 103: "third"}
NUMBERS = {"main": 1, "worker": 2, "third": 3}
CYCLE = [("main", "mutex", "worker"), ("worker", "gil", "main")]


def program(tmp_path: Path, truth: str) -> Program:
    path = tmp_path / "program.py"
    path.write_text('"""project/repository#1: a report that says in some more words what it is about\n\n'
                    f'Truth: {truth}\n"""\n')
    return Program.read(path)


def document(*deadlocks: Sequence[tuple[str, str, str | None]], behind: tuple[str, ...] = (),
             orphan: str | None = None) -> Json:
    """A document with the edges of some deadlocks, and threads that are stuck behind each of them.

    :param orphan: why the owners of the locks are not living threads.
    """
    kinds = {kind for edges in deadlocks for _, kind, _ in edges}
    return {
        "verdict": {"kind": "deadlock" if deadlocks else "idle", "ends_by_itself": not deadlocks},
        "threads": [{"number": NUMBERS[role], "lwp": lwp} for lwp, role in THREADS.items()],
        "locks": [{"id": f"{kind}:0x1", "kind": kind, "orphan": orphan} for kind in kinds],
        "deadlocks": [
            {"threads": sorted({NUMBERS[waiter] for waiter, _, _ in edges}),
             "stuck_behind": [NUMBERS[role] for role in behind],
             "edges": [{"waiter": NUMBERS[waiter], "lock": f"{kind}:0x1",
                        "holder": None if holder is None else NUMBERS[holder]} for waiter, kind, holder in edges]}
            for edges in deadlocks],
    }


@pytest.fixture
def deadlocked(tmp_path: Path) -> Program:
    """A program in which main and worker wait for each other, and the third thread is stuck behind them."""
    return program(tmp_path, '{"expect": "deadlock", "behind": ["third"], '
                             '"edges": [["main", "mutex|rwlock", "worker"], ["worker", "gil", "main"]]}')


def test_true_cycle_is_right(deadlocked: Program) -> None:
    assert judge(deadlocked, THREADS, document(CYCLE)) == (RIGHT, None)
    assert judge(deadlocked, THREADS, document(CYCLE, behind=("third",)))[0] == RIGHT


def test_lock_that_more_threads_seem_to_hold_than_can_is_false(tmp_path: Path) -> None:
    healthy = program(tmp_path, '{"expect": "healthy"}')
    seen = document()
    seen["locks"] = [{"id": "rwlock:0x1", "kind": "rwlock", "orphan": None, "why_code": None}]
    assert judge(healthy, THREADS, seen)[0] == RIGHT
    seen["locks"][0]["why_code"] = {"code": "several-proven", "arguments": {"threads": 2}}
    assert judge(healthy, THREADS, seen)[0] == FALSE


def test_no_deadlock_and_half_a_cycle_are_silent(deadlocked: Program) -> None:
    assert judge(deadlocked, THREADS, document())[0] == SILENT
    assert judge(deadlocked, THREADS, document([CYCLE[0]]))[0] == SILENT


@pytest.mark.parametrize("edges", [
    [("main", "semaphore", "worker"), CYCLE[1]],  # another kind of lock
    [("main", "mutex", "third"), CYCLE[1]],  # another holder
    [*CYCLE, ("third", "gil", "main")],  # a thread that is only stuck behind
])
def test_wrong_edges_are_false(deadlocked: Program, edges: Sequence[tuple[str, str, str | None]]) -> None:
    assert judge(deadlocked, THREADS, document(edges))[0] == FALSE


def test_thread_that_is_not_stuck_is_false(tmp_path: Path) -> None:
    without_third = program(tmp_path, '{"expect": "deadlock", "edges": [["main", "mutex", "worker"], '
                                      '["worker", "gil", "main"]]}')
    assert judge(without_third, THREADS, document(CYCLE, behind=("third",)))[0] == FALSE


def test_unknown_thread_is_false(deadlocked: Program) -> None:
    assert judge(deadlocked, {101: "main"}, document(CYCLE))[0] == FALSE


def test_ended_owner_must_be_reported_as_ended(tmp_path: Path) -> None:
    orphaned = program(tmp_path, '{"expect": "deadlock", "edges": [["main", "mutex", null]]}')
    assert judge(orphaned, THREADS, document([("main", "mutex", None)], orphan="left behind by fork"))[0] == RIGHT
    assert judge(orphaned, THREADS, document([("main", "mutex", "worker")]))[0] == FALSE
    assert judge(orphaned, THREADS, document([("worker", "mutex", None)], orphan="thread exited"))[0] == FALSE


def test_standstill_may_name_all_threads(tmp_path: Path) -> None:
    standstill = program(tmp_path, '{"expect": "deadlock", "standstill": true, '
                                   '"edges": [["main", "condvar", null], ["worker", "thread-exit", "main"]]}')
    everybody = [("main", "futex", None), ("worker", "thread-exit", "main"), ("third", "semaphore", None)]
    assert judge(standstill, THREADS, document(everybody)) == (RIGHT, None)
    # an edge between two of them must still be true
    assert judge(standstill, THREADS, document([*everybody, ("main", "condvar", "worker")]))[0] == FALSE


def test_standstill_is_right_if_all_threads_are_stuck(deadlocked: Program) -> None:
    everybody = [("main", "mutex", None), ("worker", "gil", None), ("third", "futex", None)]
    assert judge(deadlocked, THREADS, document(everybody)) == (RIGHT, None)
    # but not that an owner is gone, and a thread that the program has not named may run
    assert judge(deadlocked, THREADS, document(everybody, orphan="thread exited"))[0] == FALSE
    assert judge(deadlocked, {101: "main", 102: "worker"}, document(everybody))[0] == FALSE


def test_standstill_may_name_waits_of_stuck_threads(tmp_path: Path) -> None:
    truth = ('{"expect": "deadlock", "behind": ["third"], %s'
             '"edges": [["main", "mutex", "worker"], ["worker", "gil", "main"]]}')
    everybody = [*CYCLE, ("third", "thread-exit", "main")]
    assert judge(program(tmp_path, truth % '"waits": [["third", "thread-exit", "main"]], '), THREADS,
                 document(everybody)) == (RIGHT, None)
    assert judge(program(tmp_path, truth % ""), THREADS, document(everybody))[0] == FALSE


@pytest.mark.parametrize("expect", ["healthy", "hang"])
def test_deadlock_in_another_program_is_false(tmp_path: Path, expect: str) -> None:
    other = program(tmp_path, f'{{"expect": "{expect}"}}')
    assert judge(other, THREADS, document()) == (RIGHT, None)
    assert judge(other, THREADS, document(CYCLE))[0] == FALSE


def test_verdict_that_says_something_else_is_false(deadlocked: Program, tmp_path: Path) -> None:
    stuck = {"kind": "standstill", "ends_by_itself": False}
    assert judge(deadlocked, THREADS, {**document(), "verdict": stuck})[0] == FALSE
    assert judge(deadlocked, THREADS, {**document(CYCLE), "verdict": document()["verdict"]})[0] == FALSE
    healthy = program(tmp_path, '{"expect": "healthy"}')
    assert judge(healthy, THREADS, {**document(), "verdict": stuck})[0] == FALSE


def test_worst_snapshot_counts() -> None:
    score = Score("program", "3.11", "deadlock")
    for target, verdict, why in (("live", RIGHT, None), ("core", FALSE, "invented"), ("live", SILENT, "missed"),
                                 ("core", FALSE, "invented"), ("live", RIGHT, None)):
        score.add(target, verdict, why)
    assert (score.looks, score.verdict, score.why) == (5, FALSE, ["core: invented", "live: missed"])
    assert score.verdicts == {"live": SILENT, "core": FALSE}


def test_silence_is_expected_only_where_declared(tmp_path: Path) -> None:
    known = program(tmp_path, '{"expect": "deadlock", "edges": [["main", "gil", "worker"]], "silent": ["core-3.11"]}')
    for python, target, verdict, expected in (("3.11", "core", SILENT, []), ("3.13", "core", SILENT, ["core"]),
                                              ("3.11", "live", SILENT, ["live"]), ("3.11", "core", FALSE, ["core"])):
        score = Score("program", python, "deadlock")
        score.add(target, verdict, "why")
        assert unexpected(known, score) == expected


def test_cycles_of_greenlets_are_compared_by_their_outermost_functions(tmp_path: Path) -> None:
    def found(*edges: tuple[str, str | None, str]) -> Json:
        rows = [{"id": waiter, "stack": [{"function": waiter}], "waits": {"kind": kind, "holders": [], "greenlets": [
            other]}} for waiter, kind, other in edges]
        return {**document(), "greenlets": rows, "greenlet_cycles": [[row["id"] for row in rows]] if rows else []}

    def program(truth: str) -> Program:
        path = tmp_path / "program.py"
        path.write_text(f'"""A program that is written after a report on greenlets of gevent.\n\nTruth: {truth}"""')
        return Program.read(path)

    told = program('{"expect": "deadlock", "edges": [], "greenlets": [["one", "end", "two"], ["two", "end", "one"]]}')
    assert judge(told, THREADS, found(("one", None, "two"), ("two", None, "one"))) == (RIGHT, None)
    assert judge(told, THREADS, found(("one", "Lock", "two"), ("two", None, "one")))[0] == FALSE
    assert judge(told, THREADS, found())[0] == SILENT
    fine = program('{"expect": "healthy"}')
    assert judge(fine, THREADS, found()) == (RIGHT, None)
    assert judge(fine, THREADS, found(("one", None, "one")))[0] == FALSE
