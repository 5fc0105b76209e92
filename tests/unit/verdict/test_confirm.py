from __future__ import annotations

from dataclasses import replace

from gdbext.model import Deadlock, Edge, Holder, Lock, Report, TargetInfo, Thread, Wait
from gdbext.model.reasons import because
from gdbext.verdict.confirm import sleepers, what_stayed

INFO = TargetInfo("live", 100, None, "x86_64", None)


def look(first: int, *edges: tuple[int, str, int | None]) -> Report:
    """A report in which the threads have numbers from `first` on; edges name LWPs."""
    lwps = (101, 102, 103, 104)
    number = {lwp: first + i for i, lwp in enumerate(lwps)}
    waits = {waiter: lock for waiter, lock, _ in edges}
    threads = tuple(Thread(number[lwp], lwp, lwp, None,
                           waits=Wait(waits[lwp], "exclusive", False) if lwp in waits else None) for lwp in lwps)
    locks = tuple(Lock(lock, lock.partition(":")[0], 0, None, "locked",
                       (Holder(number[holder], "exclusive", "recorded"),) if holder else ())
                  for _, lock, holder in edges)
    deadlock = Deadlock(tuple(number[waiter] for waiter, _, _ in edges), "recorded", tuple(
        Edge(number[waiter], lock, number[holder] if holder else None) for waiter, lock, holder in edges))
    return Report(INFO, (), threads, locks, (deadlock,) if edges else ())


ABBA = ((101, "mutex:0x10", 102), (102, "mutex:0x20", 101))


def test_what_stays_stays() -> None:
    second = look(5, *ABBA)
    assert what_stayed(look(1, *ABBA), second, ()) == second


def test_a_thread_that_ran_was_not_deadlocked() -> None:
    report = what_stayed(look(1, *ABBA), look(5, *ABBA), {102})
    assert report.deadlocks == ()
    assert report.notes[0] == because("deadlocks-dropped", count=1)
    assert what_stayed(look(1, *ABBA), look(5, *ABBA), {104}).deadlocks


def test_another_lock_is_another_deadlock() -> None:
    other = ((101, "mutex:0x10", 102), (102, "mutex:0x28", 101))
    assert what_stayed(look(1, *ABBA), look(1, *other), ()).deadlocks == ()


def test_one_look_is_not_enough() -> None:
    assert what_stayed(look(1), look(1, *ABBA), ()).deadlocks == ()
    report = what_stayed(look(1, *ABBA), look(1), ())
    assert (report.deadlocks, len(report.notes)) == ((), 1)
    report = what_stayed(look(1), look(1), ())
    assert (report.deadlocks, report.notes) == ((), ())


def test_an_owner_that_is_gone() -> None:
    orphan = ((101, "mutex:0x10", None),)
    assert what_stayed(look(1, *orphan), look(2, *orphan), ()).deadlocks


def test_threads_that_want_a_gil_wake_up_to_ask_for_it() -> None:
    report = look(1, (101, "rwlock:0x10", 102), (102, "gil:0", 101))
    assert sleepers(report) == [101]
    assert sleepers(replace(report, deadlocks=())) == []
