"""Two reports on one process: what has moved, and whether the second proves the hang."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gdbext.model import Holder, NativeFrame, Report
from gdbext.render.changes import changes_json, changes_text
from gdbext.verdict.changes import Changes, compare, is_same_process
from gdbext.verdict.judge import verdict_of
from tests.support.fake_report import asyncio, gil_deadlock, healthy, inferred_deadlock, without_verdict

LATER = 120.0


def at(report: Report, time: float, **since: float | None) -> Report:
    """A report of a time, whose threads ran last so many seconds before: ``t3`` is thread 3, others `all`."""
    threads = [dataclasses.replace(thread, since=since.get(f"t{thread.number}", since.get("all")))
               for thread in report.threads]
    return dataclasses.replace(report, threads=tuple(threads), target=dataclasses.replace(report.target, time=time))


def changes(first: Report, second: Report) -> Changes:
    return compare(at(first, 1000.0, all=5.0), second)


def with_thread(report: Report, number: int, **fields: Any) -> Report:
    return dataclasses.replace(report, threads=tuple(
        [dataclasses.replace(thread, **fields) if thread.number == number else thread for thread in report.threads]))


def test_deadlock_whose_threads_have_not_run_is_proven() -> None:
    found = changes(inferred_deadlock(), at(inferred_deadlock(), 1000 + LATER, all=LATER + 5))
    assert (found.proof, found.seconds) == ("proven", LATER)
    assert "HANG PROVEN: DEADLOCK: " in changes_text(found)
    assert " has run in 2 min." in changes_text(found)
    assert found.lasted


def test_order_of_the_reports_does_not_matter() -> None:
    later = at(inferred_deadlock(), 1000 + LATER, all=LATER + 5)
    assert changes_json(compare(later, at(inferred_deadlock(), 1000.0, all=5.0))) == changes_json(
        changes(inferred_deadlock(), later))


def test_thread_that_waits_for_the_gil_may_run_while_the_holder_does_not() -> None:
    report = gil_deadlock()
    waiting = [thread.number for thread in report.threads if thread.waits is not None and thread.waits.lock == "gil:0"]
    since: dict[str, float | None] = {f"t{number}": 0.001 for number in waiting}
    assert changes(report, at(report, 1000 + LATER, all=LATER + 5, **since)).proof == "proven"
    # if the holder has run, it may have released the GIL
    assert changes(report, at(report, 1000 + LATER, all=1.0, **since)).proof == "ran"


def test_thread_that_has_run_proves_nothing() -> None:
    found = changes(inferred_deadlock(), at(inferred_deadlock(), 1000 + LATER, all=LATER + 5, t1=3.0))
    assert found.proof == "ran"
    assert "NOT PROVEN: DEADLOCK: " in changes_text(found)
    assert "perhaps only to wait again." in changes_text(found)


@pytest.mark.parametrize(("seconds", "since"), [(LATER, None), (2.0, 60.0)])
def test_proof_needs_to_know_when_threads_ran(seconds: float, since: float | None) -> None:
    found = changes(inferred_deadlock(), at(inferred_deadlock(), 1000 + seconds, all=since))
    assert found.proof == "unknown"
    assert "it is not known whether these threads have run" in changes_text(found)


def test_holder_that_differs_is_another_deadlock() -> None:
    later = inferred_deadlock()
    edges = tuple([dataclasses.replace(edge, lock=f"{edge.lock}0") for edge in later.deadlocks[0].edges])
    later = dataclasses.replace(later, deadlocks=(dataclasses.replace(later.deadlocks[0], edges=edges),))
    assert changes(inferred_deadlock(), at(later, 1000 + LATER, all=LATER + 5)).proof == "lasts"


def test_other_verdict_is_a_change() -> None:
    found = changes(gil_deadlock(), at(healthy(), 1000 + LATER, all=1.0))
    assert found.proof == "other"
    assert "; the first report has DEADLOCK" in changes_text(found)
    assert changes(healthy(), at(healthy(), 1000 + LATER, all=1.0)).proof == "fine"


def test_verdict_that_leaves_the_end_open_lasts() -> None:
    report = without_verdict()
    found = changes(report, at(report, 1000 + LATER, all=LATER + 5))
    assert found.proof in ("lasts", "unknown")
    assert "HANG PROVEN" not in changes_text(found)


def test_cycle_of_tasks_needs_no_thread() -> None:
    report = dataclasses.replace(asyncio(), deadlocks=())
    assert verdict_of(report).kind == "task-cycle"
    assert changes(report, at(report, 1000 + LATER, all=0.1)).proof == "proven"


def test_threads_and_locks_that_differ() -> None:
    report = gil_deadlock()
    later = dataclasses.replace(report, threads=report.threads[1:], locks=tuple(
        [dataclasses.replace(lock, holders=(Holder(4, "exclusive", "recorded"),)) for lock in report.locks]))
    later = with_thread(later, 4, stack=(NativeFrame("elsewhere", "libx.so", 1),), parts=())
    new = dataclasses.replace(report.threads[0], lwp=9999, number=77)
    found = changes(report, at(dataclasses.replace(later, threads=(*later.threads, new)), 1000 + LATER, all=1.0))
    assert [thread.number for thread in found.new] == [77]
    assert [thread.number for thread in found.gone] == [1]
    assert [after.id for _, after in found.handed] == [lock.id for lock in report.locks if lock.kind != "gil"]
    assert [pair.after.number for pair in found.pairs if pair.moved] == [4]
    text = changes_text(found)
    for heading in ("New threads: ", "Ended threads: ", "Locks that changed hands:\n", "Threads that have moved:\n"):
        assert f"\n{heading}" in text


def test_reports_on_other_processes_are_recognised() -> None:
    other = dataclasses.replace(healthy(), target=dataclasses.replace(healthy().target, pid=1))
    assert is_same_process(healthy(), healthy())
    assert not is_same_process(healthy(), other)
