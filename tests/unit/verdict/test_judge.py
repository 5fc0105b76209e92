"""The verdict that follows from a report: each kind, the healthy states that look alike, and the order of kinds."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from gdbext.model import (
    EXCLUSIVE,
    INFERRED,
    RECORDED,
    Awaited,
    Ender,
    EventLoop,
    Frame,
    Greenlet,
    GreenletWait,
    Group,
    Holder,
    Identity,
    Lock,
    NativeFrame,
    Operation,
    Polling,
    PyFrame,
    Rank,
    Report,
    Stopped,
    TargetInfo,
    Task,
    Thread,
    ThreadStatus,
    Wait,
)
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import ReasonCode, because, joined
from gdbext.model.verdict import OUTCOMES, Verdict
from gdbext.verdict.judge import ends_by_itself, is_cause, judge, verdict_of
from tests.support import fake_page
from tests.support.fake_report import crashed, gil_deadlock, healthy, orphaned, standstill, without_verdict
from tests.support.reasons import text

INFO = TargetInfo("live", 885, None, "x86_64", None)


def lock(kind: LockKind, address: int, *holders: int, state: str = "locked") -> Lock:
    return Lock(f"{kind}:{address:#x}", kind, address, None, state,
                tuple(Holder(holder, EXCLUSIVE, RECORDED) for holder in holders))


def thread(number: int, waits: Lock | None = None, *, timed: bool = False, status: ThreadStatus = "blocked",
           blocked_on: ReasonCode | None = None, syscall: str | None = None, files: tuple[str, ...] = (),
           function: str = "work") -> Thread:
    stack: tuple[Frame, ...] = tuple(PyFrame(function, function, file, 1) for file in files)
    return Thread(number, number, number, None, status=status, syscall=syscall, stack=stack,
                  waits=Wait(waits.id, EXCLUSIVE, timed) if waits is not None else None,
                  blocked_on=because(blocked_on) if blocked_on is not None else None)


def report(*threads: Thread, locks: tuple[Lock, ...] = ()) -> Report:
    return Report(INFO, threads=threads, locks=locks)


SOCKET = lock("descriptor", 1, state="waiting to read")
INPUT = lock("descriptor", 0, state="waiting to read")
SERVED = lock("descriptor", 2, state="waiting for events")
OWN_PIPE = replace(lock("descriptor", 12, state="waiting to write"), why=because("other-end-here", fds=(13,)))
OF_CHILD = replace(lock("descriptor", 13, state="waiting to read"), why=because("other-end", ends=(because(
    "descriptor-of", fd=4, process=because("process", pid=886, name="sh", generation=1)),)))
OF_OTHER = replace(lock("descriptor", 14, state="waiting to read"), why=because("other-end", ends=(because(
    "descriptor-of", fd=4, process=because("process", pid=884, name="sh")),)))
HELD_BY_2 = lock("py-lock", 3, 2)
HELD_BY_1 = lock("py-lock", 15, 1)
END_OF_2 = lock("thread-exit", 4, 2)
EVENT = lock("py-event", 5, state="not set")
RESULT = lock("py-condition", 6, state="result is pending")
QUEUED = replace(lock("py-condition", 21, state="result is pending"), why=because("call-is-queued"))
JOIN = lock("py-condition", 7, state="not all tasks are done")
EMPTY = lock("py-condition", 8, state="queue is empty")
UNKNOWN = lock("py-lock", 9)
FREE = lock("py-lock", 10, state="free")
DNS = lock("descriptor", 18, state="waiting for events")
FULL = lock("descriptor", 17, state="waiting to write")
SEMAPHORE = lock("py-semaphore", 16, state="zero")
WORK = PyFrame("handle", "handle", "/app/job.py", 9)
GIL_OF_2 = lock("gil", 11, 2, state="held")
POOL = "/usr/lib/python3.11/concurrent/futures/thread.py"
PROCESSES = ("/usr/lib/python3.11/multiprocessing/pool.py", "/usr/lib/python3.11/subprocess.py")
LOCKS = (SOCKET, INPUT, SERVED, HELD_BY_2, END_OF_2, EVENT, RESULT, JOIN, EMPTY, UNKNOWN, FREE, GIL_OF_2, OWN_PIPE,
         OF_CHILD, OF_OTHER, HELD_BY_1, SEMAPHORE, QUEUED)


@pytest.mark.parametrize(("made", "kind", "threads", "behind"), [
    (gil_deadlock(), "deadlock", (1, 2), (3,)),
    (orphaned(), "orphaned-lock", (1,), ()),
    (standstill(), "standstill", (1, 2), ()),
    (replace(crashed(), deadlocks=()), "crash", (1,), ()),
    (replace(without_verdict(), deadlocks=()), "unknown", (), ()),
    (healthy(), "computing", (1,), (2,)),
])
def test_verdicts_of_whole_reports(made: Report, kind: str, threads: tuple[int, ...], behind: tuple[int, ...]) -> None:
    found = judge(made)
    assert (found.kind, found.threads, found.behind) == (kind, threads, behind)


@pytest.mark.parametrize(("threads", "kind", "numbers", "behind"), [
    # behind a thread that waits for something outside of the process
    ([thread(1, HELD_BY_2), thread(2, SOCKET), thread(3, HELD_BY_2)], "blocked-behind", (2,), (1, 3)),
    ([thread(1, HELD_BY_2), thread(2, SOCKET), thread(3, status="running")], "computing", (3,), ()),
    ([thread(1, END_OF_2), thread(2, SOCKET)], "blocked-behind", (2,), (1,)),
    ([thread(1, GIL_OF_2), thread(2, SOCKET)], "blocked-behind", (2,), (1,)),
    ([thread(1, HELD_BY_2), thread(2, blocked_on="waits-for-child")], "children", (2,), (1,)),
    ([thread(1, HELD_BY_2), thread(2, OF_CHILD)], "children", (2,), (1,)),
    # no child process is known: the file of a function does not matter
    ([thread(1, HELD_BY_2), thread(2, SOCKET, files=PROCESSES)], "blocked-behind", (2,), (1,)),
    ([thread(1, HELD_BY_2), thread(2, OF_OTHER, files=PROCESSES)], "blocked-behind", (2,), (1,)),
    ([thread(1, OF_CHILD)], "children", (1,), ()),
    ([thread(1, OWN_PIPE, files=PROCESSES)], "blocked-behind", (1,), ()),
    # a lock that is kept while its holder waits for an event or serves, but nobody runs who would set it
    ([thread(1, HELD_BY_2), thread(2, EVENT)], "blocked-behind", (2,), (1,)),
    ([thread(1, HELD_BY_2), thread(2, SERVED, syscall="epoll_wait")], "blocked-behind", (2,), (1,)),
    # a server: its first thread only waits for the end of the one that serves
    ([thread(1, END_OF_2), thread(2, SERVED, syscall="epoll_wait")], "idle", (), ()),
    ([thread(1, END_OF_2), thread(2, EMPTY)], "idle", (), ()),
    # a wait that ends by itself keeps nobody
    ([thread(1, HELD_BY_2, timed=True), thread(2, SOCKET)], "idle", (), ()),
    ([thread(1, HELD_BY_2), thread(2, SOCKET, timed=True)], "idle", (), ()),
    ([thread(1, HELD_BY_2), thread(2, blocked_on="sleeps-for")], "idle", (), ()),
    # the first thread alone
    ([thread(1, SOCKET), thread(2, EMPTY)], "blocked-behind", (1,), ()),
    ([thread(1, SOCKET), thread(2, status="running")], "computing", (2,), ()),
    # a pipe of which only this process has the other end, which another thread may use in a moment
    ([thread(1, OWN_PIPE), thread(2, EMPTY)], "blocked-behind", (1,), ()),
    ([thread(1, OWN_PIPE), thread(2, blocked_on="sleeps-for")], "idle", (), ()),
    ([thread(1, OWN_PIPE), thread(2, EVENT, timed=True)], "idle", (), ()),
    ([thread(1, HELD_BY_2), thread(2, OWN_PIPE), thread(3, blocked_on="sleeps")], "idle", (), ()),
    ([thread(1, SOCKET), thread(2, blocked_on="sleeps-for")], "blocked-behind", (1,), ()),
    ([thread(1, INPUT), thread(2, EMPTY)], "idle", (), ()),
    ([thread(1, HELD_BY_2), thread(2, INPUT)], "blocked-behind", (2,), (1,)),
    ([thread(1, blocked_on="waits-for-any-child")], "children", (1,), ()),
    ([thread(1, SERVED, syscall="epoll_wait"), thread(2, SOCKET)], "idle", (), ()),
    ([thread(1, SERVED, syscall="accept4")], "idle", (), ()),
    ([thread(1, blocked_on="sleeps-for"), thread(2, EMPTY)], "idle", (), ()),
    ([thread(1, blocked_on="waits-for-signal"), thread(2, SOCKET)], "idle", (), ()),
    # a pool of processes: the first thread waits for a result, others read from the children
    ([thread(1, RESULT), thread(2, OF_CHILD)], "children", (1,), ()),
    ([thread(1, RESULT), thread(2, OF_CHILD, timed=True)], "blocked-behind", (1,), ()),
    ([thread(1, RESULT), thread(2, SOCKET, files=PROCESSES)], "blocked-behind", (1,), ()),
    ([thread(1, EVENT), thread(2, OF_CHILD)], "idle", (), ()),
    # the thread that should bring the result waits for the first thread
    ([thread(1, RESULT), thread(2, OF_CHILD), thread(3, HELD_BY_1)], "blocked-behind", (1,), ()),
    # a result that nobody makes
    ([thread(1, RESULT), thread(2, SOCKET)], "blocked-behind", (1,), ()),
    ([thread(1, RESULT), thread(2, EMPTY)], "blocked-behind", (1,), ()),
    ([thread(1, RESULT), thread(2, status="running")], "computing", (2,), ()),
    ([thread(1, RESULT, timed=True), thread(2, EMPTY)], "idle", (), ()),
    # pools of threads
    ([thread(1, RESULT), thread(2, QUEUED, files=("/app/job.py", POOL), function="_worker")], "pool", (2,), (1,)),
    # it may come from elsewhere
    ([thread(1, RESULT), thread(2, RESULT, files=("/app/job.py", POOL), function="_worker")], "blocked-behind", (1, 2),
     ()),
    ([thread(1, RESULT), thread(2, RESULT, files=(POOL,), function="_worker"),
      thread(3, EMPTY, files=(POOL,), function="_worker")], "blocked-behind", (1, 2), ()),
    ([thread(1, RESULT), thread(2, RESULT, files=(POOL,), function="_worker"),
      thread(3, status="running")], "computing", (3,), ()),
    # queues
    ([thread(1, JOIN), thread(2, EMPTY), thread(3, SOCKET)], "queue", (1,), ()),
    ([thread(1, JOIN), thread(2, status="running")], "computing", (2,), ()),
    ([thread(1, JOIN, timed=True), thread(2, EMPTY)], "idle", (), ()),
    # a lock whose holder is not known
    ([thread(1, UNKNOWN), thread(2, SOCKET)], "unknown", (1,), ()),
    ([thread(1, UNKNOWN), thread(2, status="running")], "computing", (2,), ()),
    ([thread(1, UNKNOWN, timed=True)], "idle", (), ()),
    ([thread(1, FREE)], "idle", (), ()),
    # nothing is wrong
    ([thread(1, GIL_OF_2), thread(2, status="running"), thread(3, status="running")], "computing", (2, 3), (1,)),
    ([thread(1, EVENT), thread(2, EMPTY)], "idle", (), ()),
    # not everything could be read
    ([thread(1, status="unknown", blocked_on="maybe-blocked")], "unknown", (1,), ()),
    ([thread(1, EVENT), thread(2, status="unknown", blocked_on="maybe-blocked")], "idle", (), ()),
    ([thread(1, status="unknown"), thread(2, status="running")], "computing", (2,), ()),
    ([thread(1, EVENT), thread(2, status="unknown")], "unknown", (2,), ()),
    ([], "unknown", (), ()),
])
def test_verdict_without_a_deadlock(threads: list[Thread], kind: str, numbers: tuple[int, ...],
                                    behind: tuple[int, ...]) -> None:
    found = judge(report(*threads, locks=LOCKS))
    assert (found.kind, found.threads, found.behind) == (kind, numbers, behind)


def with_task(loop_thread: Thread, *others: Thread) -> Report:
    tasks = (Task(0x10, "a", 0x1, 1, "running"), Task(0x20, "b", 0x1, 1, "pending"),
             Task(0x30, "c", 0x2, None, "pending"))
    return replace(report(loop_thread, *others, locks=LOCKS), tasks=tasks, event_loops=(EventLoop(0x1, "Loop", 1),))


def test_event_loop_that_a_task_blocks() -> None:
    found = judge(with_task(thread(1, SOCKET)))
    assert (found.kind, found.threads, found.tasks) == ("event-loop-blocked", (1,), (0x10, 0x20))
    assert judge(with_task(thread(1, blocked_on="sleeps-for"))).kind == "event-loop-blocked"


def test_event_loop_whose_task_waits_for_its_turn_or_for_a_running_thread_is_not_blocked() -> None:
    assert judge(with_task(thread(1, GIL_OF_2), thread(2, status="running"))).kind == "computing"
    assert judge(with_task(thread(1, HELD_BY_2), thread(2, status="running"))).kind == "computing"
    assert judge(with_task(thread(1, status="running"))).kind == "computing"


def test_proofs_come_before_what_may_end() -> None:
    """A deadlock beside a doubt, a crash beside a deadlock, a cycle of tasks beside a thread that reads."""
    assert judge(replace(gil_deadlock(), no_verdict=text("PyPy"))).kind == "deadlock"
    assert judge(replace(crashed(), deadlocks=gil_deadlock().deadlocks)).kind == "crash"
    # a watchdog kills programs that hang
    killed = replace(crashed(), deadlocks=gil_deadlock().deadlocks)
    assert killed.crash is not None
    killed = replace(killed, crash=replace(killed.crash, fault=replace(killed.crash.fault, kind="sent")))
    assert killed.crash is not None
    assert judge(killed).kind == "deadlock"
    assert judge(replace(killed, deadlocks=(), no_verdict=text("musl"))).kind == "unknown"
    assert judge(replace(killed, deadlocks=(), threads=(thread(1, SOCKET),), locks=LOCKS)).kind == "blocked-behind"
    # a program that raises the signal has died of it
    for code, sender in ("SI_TKILL", (INFO.pid, 0)), ("SI_USER", (INFO.pid, 0)), (None, None):
        fault = replace(killed.crash.fault, code=code, sender=sender)
        assert judge(replace(killed, deadlocks=(), crash=replace(killed.crash, fault=fault))).kind == "crash"
    cycle = judge(replace(fake_page.asyncio(), deadlocks=()))
    assert (cycle.kind, cycle.tasks) == ("task-cycle", (0x10, 0x20))
    assert judge(replace(report(thread(1, HELD_BY_2), thread(2, SOCKET), locks=LOCKS),
                         no_verdict=text("PyPy"))).kind == "blocked-behind"


def test_a_report_keeps_its_verdict() -> None:
    kept = Verdict("idle")
    assert verdict_of(replace(gil_deadlock(), verdict=kept)) is kept
    assert verdict_of(gil_deadlock()).kind == "deadlock"


@pytest.mark.parametrize(("made", "kind"), [
    (healthy(), "stopped"), (without_verdict(), "stopped"), (standstill(), "stopped"), (gil_deadlock(), "deadlock"),
    (replace(gil_deadlock(), deadlocks=tuple(replace(each, evidence=INFERRED) for each in gil_deadlock().deadlocks)),
     "stopped"),
    (orphaned(), "orphaned-lock"), (fake_page.asyncio(), "task-cycle"), (crashed(), "crash")])
def test_verdict_on_a_stopped_process_is_the_stop_unless_a_proof_says_that_it_hangs(made: Report, kind: str) -> None:
    found = judge(replace(made, target=replace(made.target, stopped=Stopped("signal", "SIGSTOP"))))
    assert found.kind == kind


def test_outcomes() -> None:
    assert {kind for kind, outcome in OUTCOMES.items() if outcome == "fine"} == {"computing", "idle"}
    stuck = [kind for kind, outcome in OUTCOMES.items() if outcome == "stuck"]
    assert {ends_by_itself(replace(healthy(), verdict=Verdict(kind, (1,)))) for kind in stuck} == {False}
    for verdict in (Verdict("unknown", (1,)), Verdict("stopped", (1,))):
        assert ends_by_itself(replace(healthy(), verdict=verdict)) is None


@pytest.mark.parametrize(("first", "second", "ends"), [
    (thread(1, HELD_BY_2), thread(2, status="running"), True),
    (thread(1, HELD_BY_2), thread(2, blocked_on="sleeps-for"), True),
    (thread(1, HELD_BY_2), thread(2, SOCKET, timed=True), True),
    (thread(1, blocked_on="sleeps"), thread(2, SOCKET), True),
    (thread(1, HELD_BY_2), thread(2, SOCKET), None),
    (thread(1, SOCKET), thread(2, blocked_on="sleeps"), None),
    (thread(1, blocked_on="waits-for-child"), thread(2, SOCKET), None),
    (thread(1, UNKNOWN), thread(2, blocked_on="sleeps"), None),
    (thread(1, blocked_on="waits-for-signal"), thread(2, SERVED), None)])
def test_state_ends_by_itself_when_a_timeout_or_a_running_thread_ends_it(
        first: Thread, second: Thread, ends: bool | None) -> None:
    assert ends_by_itself(report(first, second, locks=LOCKS)) is ends


def test_damaged_references_are_ignored() -> None:
    gone = lock("py-lock", 3, 77)
    itself = lock("py-rlock", 12, 1)
    assert judge(report(thread(1, gone), thread(2, SOCKET), locks=(gone, SOCKET))).kind == "idle"
    assert judge(report(thread(1, itself), locks=(itself,))).kind == "idle"
    assert judge(report(thread(1, SOCKET), locks=())).kind == "idle"


def test_ten_thousand_threads_are_quick() -> None:
    """Each thread waits for a lock of the next one, and the last one reads a socket."""
    locks = [lock("py-lock", 0x1000 + number, number) for number in range(2, 10_001)]
    threads = [thread(number, each) for number, each in enumerate(locks, start=1)]
    began = time.process_time()
    found = judge(report(*threads, thread(10_000, SOCKET), locks=(*locks, SOCKET)))
    assert (found.kind, found.threads, len(found.behind)) == ("blocked-behind", (10_000,), 9_999)
    assert time.process_time() - began < 2


# -- greenlets -------------------------------------------------------------------------------------------------------


def greenlets(*made: tuple[int, GreenletWait | None], cycles: tuple[tuple[int, ...], ...] = ()) -> Report:
    waiting = Thread(1, 885, 885, "python", status="blocked", syscall="epoll_wait")
    members = tuple([Greenlet(address, "Greenlet", 1, "suspended", waits=waits) for address, waits in made])
    return Report(INFO, threads=(waiting,), greenlets=members, greenlet_cycles=cycles)


def test_cycle_of_greenlets_has_its_weakest_evidence() -> None:
    report = greenlets((1, GreenletWait(holders=(2,), locked=True, evidence="derived")),
                       (2, GreenletWait(greenlets=(1,))), cycles=((1, 2),))
    found = judge(report)
    assert (found.kind, found.greenlets, found.evidence, found.outcome) == (
        "greenlet-cycle", (1, 2), "derived", "stuck")
    joins = greenlets((1, GreenletWait(greenlets=(1,))), cycles=((1,),))
    assert judge(joins).evidence == "recorded"


def test_greenlet_with_others_behind_it_that_waits_for_input() -> None:
    report = greenlets((1, GreenletWait("io", others=1)), (2, GreenletWait(holders=(1,), locked=True)),
                       (3, GreenletWait(holders=(2,), locked=True)), (4, GreenletWait(holders=(1,), timed=True)))
    found = judge(report)
    assert (found.kind, found.threads, found.greenlets) == ("blocked-behind", (1,), (1, 2, 3))


@pytest.mark.parametrize("waits", [
    GreenletWait("timer", timed=True), GreenletWait("io", others=1, timed=True), GreenletWait("stat", others=1), None])
def test_greenlet_that_continues_after_a_time_blocks_nothing(waits: GreenletWait | None) -> None:
    assert judge(greenlets((1, waits), (2, GreenletWait(holders=(1,), locked=True)))).kind == "idle"


def test_greenlet_that_waits_for_a_lock_without_known_holder_is_unknown() -> None:
    wanted = GreenletWait("gevent.lock.Semaphore", locked=True)
    found = judge(greenlets((1, wanted), (2, GreenletWait("io", others=1))))
    assert (found.kind, found.greenlets) == ("unknown", (1,))
    for fine in (GreenletWait("x", locked=True, timed=True), GreenletWait("gevent.event.Event", others=1)):
        assert judge(greenlets((1, fine))).kind == "idle"


def sleeper(number: int, seconds: float | None, *, code: ReasonCode = "sleeps-for") -> Thread:
    return replace(thread(number, blocked_on=code), ended_by=(Ender("time", seconds),))


@pytest.mark.parametrize(("threads", "kind", "numbers", "behind"), [
    # a lock is held for long
    ([thread(1, HELD_BY_2), sleeper(2, 600)], "blocked-behind", (2,), (1,)),
    ([thread(1, HELD_BY_2), sleeper(2, 600), thread(3, status="running")], "blocked-behind", (2,), (1,)),
    # and for a moment, which others have waited for, or not
    ([replace(thread(1, HELD_BY_2), since=9.0), sleeper(2, 0.1)], "blocked-behind", (2,), (1,)),
    ([replace(thread(1, HELD_BY_2), since=0.1), sleeper(2, 0.1)], "idle", (), ()),
    ([replace(thread(1, HELD_BY_2), since=9.0), thread(2, SOCKET), thread(3, status="running")],
     "blocked-behind", (2,), (1,)),
    # nobody needs the GIL to sleep
    ([thread(1, GIL_OF_2), sleeper(2, 0.1)], "blocked-behind", (2,), (1,)),
    ([thread(1, GIL_OF_2), thread(2, blocked_on="waits-for-signal")], "blocked-behind", (2,), (1,)),
    # a thread that others join may sleep
    ([thread(1, END_OF_2), sleeper(2, 600)], "idle", (), ()),
    # the holder waits for a lock itself
    ([thread(1, HELD_BY_2), thread(2, GIL_OF_2), sleeper(3, 600)], "idle", (), ()),
    # a day is no answer
    ([thread(1, HELD_BY_2), sleeper(2, 86400)], "blocked-behind", (2,), (1,)),
    ([replace(thread(1, blocked_on="sleeps-for"), polling=Polling(PyFrame("f", "f", "/app/a.py", 1)))],
     "polling", (1,), ()),
    ([replace(thread(1, blocked_on="sleeps-for"), polling=Polling(PyFrame("f", "f", "/app/a.py", 1))),
      thread(2, EMPTY)], "idle", (), ()),
])
def test_lock_of_a_thread_that_sleeps(threads: list[Thread], kind: str, numbers: tuple[int, ...],
                                      behind: tuple[int, ...]) -> None:
    found = judge(report(*threads, locks=LOCKS))
    assert (found.kind, found.threads, found.behind) == (kind, numbers, behind)


@pytest.mark.parametrize(("seconds", "expected"), [(600.0, True), (None, True), (3600.0, None)])
def test_a_long_timeout_ends_nothing(seconds: float | None, expected: bool | None) -> None:
    assert ends_by_itself(report(sleeper(1, seconds))) is expected


def test_a_core_does_not_say_how_long_a_sleep_was_to_last() -> None:
    made = report(thread(1, HELD_BY_2), sleeper(2, None, code="sleeps-until"), locks=LOCKS)
    assert judge(made).kind == "idle"
    assert judge(replace(made, target=replace(INFO, kind="core"))).kind == "blocked-behind"


def at_work(number: int, waits: Lock | None, since: float | None = 20.0, timed: bool = False,
            blocked_on: ReasonCode | None = None) -> Thread:
    return replace(thread(number, waits, timed=timed, blocked_on=blocked_on), at_work=WORK, since=since)


SERVING, SLEEPING = thread(1, syscall="epoll_wait"), replace(thread(3, blocked_on="sleeps"), since=2.0)


@pytest.mark.parametrize(("threads", "numbers", "behind"), [
    ([SERVING, at_work(2, EVENT)], (2,), ()),
    ([SERVING, at_work(2, SEMAPHORE), at_work(4, SEMAPHORE)], (2, 4), ()),
    # one that goes on after a time has run since, and has done nothing about it
    ([SERVING, at_work(2, EMPTY), SLEEPING], (2,), ()),
    ([thread(1, END_OF_2), at_work(2, EVENT)], (2,), (1,)),
    # the main thread waits for permits, and not for its end
    ([at_work(1, SEMAPHORE), thread(2, syscall="epoll_wait")], (1,), ()),
])
def test_waits_in_the_middle_of_work(threads: list[Thread], numbers: tuple[int, ...], behind: tuple[int, ...]) -> None:
    found = judge(report(*threads, locks=LOCKS))
    assert (found.kind, found.threads, found.behind) == ("blocked-behind", numbers, behind)


@pytest.mark.parametrize("threads", [
    # it waits for more work, or for a moment only, or for a time
    [SERVING, thread(2, EVENT)], [SERVING, at_work(2, EVENT, since=0.1)], [SERVING, at_work(2, EVENT, since=None)],
    [SERVING, at_work(2, EVENT, timed=True)],
    # another has not run since, and may end the wait
    [SERVING, at_work(2, EVENT, since=1.5), SLEEPING],
    [SERVING, at_work(2, EVENT), replace(at_work(4, SOCKET), syscall="recvfrom")],
    # a main thread that waits for its end
    [at_work(1, EVENT), thread(2, syscall="epoll_wait")],
])
def test_healthy_waits_of_threads(threads: list[Thread]) -> None:
    assert judge(report(*threads, locks=LOCKS)).kind == "idle"


@pytest.mark.parametrize(("at_work_in", "kind"), [(WORK, "blocked-behind"), (None, "idle")])
def test_library_that_waits_for_an_answer(at_work_in: PyFrame | None, kind: str) -> None:
    asked = replace(SOCKET, why=because("unanswered", seconds=3))
    waiting = replace(thread(1, asked, syscall="epoll_wait"), at_work=at_work_in)
    assert judge(report(waiting, locks=(asked,))).kind == kind
    assert judge(report(replace(waiting, at_work=WORK), locks=(SOCKET,))).kind == "idle"


def of_relatives(*generations: int, state: str = "waiting to read") -> Lock:
    ends = tuple(because("descriptor-of", fd=4, process=because("process", pid=80 + at, generation=generation))
                 for at, generation in enumerate(generations))
    return replace(SOCKET, state=state, why=because("other-end", ends=ends))


@pytest.mark.parametrize(("waits", "kind"), [
    (of_relatives(-1), "idle"), (of_relatives(-2), "idle"),
    (of_relatives(-1, state="waiting to write"), "blocked-behind"), (of_relatives(-1, 1), "children"),
    (of_relatives(1), "children"), (SOCKET, "blocked-behind")])
def test_process_that_takes_the_next_message_of_its_parent_in_a_loop(waits: Lock, kind: str) -> None:
    assert judge(report(replace(thread(1, waits), in_loop=WORK), locks=(waits,))).kind == kind
    assert judge(report(thread(1, waits), locks=(waits,))).kind in ("blocked-behind", "children")


@pytest.mark.parametrize(("seconds", "kind"), [(7200.0, "blocked-behind"), (30.0, "idle"), (None, "idle")])
def test_timeout_of_hours_is_no_answer(seconds: float | None, kind: str) -> None:
    timed = replace(at_work(2, EMPTY, timed=True), ended_by=(Ender("time", seconds=seconds),))
    assert judge(report(SERVING, timed, locks=LOCKS)).kind == kind


def test_worker_that_waits_for_an_event_in_a_call_of_its_loop() -> None:
    """If the event is the worker's next work, it waits in the function with the loop, or another thread brings it."""
    get = PyFrame("get", "Task.get", "/app/job.py", 5)
    inside = replace(thread(2, EVENT), in_loop=WORK, since=2.0, stack=(get, WORK))
    alone, served = [thread(1, EVENT), inside], [SERVING, inside]
    for threads, kind in ((alone, "blocked-behind"), (served, "idle"), (
            [thread(1, EVENT), replace(inside, stack=(WORK,))], "idle"), (
            [thread(1, EVENT), replace(inside, since=0.1)], "idle"), (
            [thread(1, EMPTY), replace(inside, waits=Wait(EMPTY.id, EXCLUSIVE, False))], "idle")):
        assert judge(report(*threads, locks=LOCKS)).kind == kind


CONNECTS = PyFrame("wait_for_connection", "PoolRequest.wait_for_connection",
                   "/usr/lib/python3/site-packages/httpcore/_sync/connection_pool.py", 35)


@pytest.mark.parametrize(("waits", "since", "timed", "kind"), [
    (EVENT, 2.0, False, "blocked-behind"), (EVENT, 0.1, False, "idle"), (EVENT, 2.0, True, "idle"),
    # it connects
    (SOCKET, 2.0, False, "idle")])
def test_thread_that_waits_for_a_connection(waits: Lock, since: float, timed: bool, kind: str) -> None:
    waiting = replace(thread(2, waits, timed=timed), since=since, stack=(CONNECTS, WORK))
    assert judge(report(SERVING, waiting, locks=LOCKS)).kind == kind


@pytest.mark.parametrize(("awaits", "function", "kind"), [
    (Awaited(kind="asyncio.Event", address=0x6), "wait_for_connection", "blocked-behind"),
    (Awaited(kind="Future", address=0x6), "wait_for_connection", "blocked-behind"),
    (Awaited(kind="asyncio.Event", address=0x6, timed=True), "wait_for_connection", "idle"),
    (Awaited(kind="asyncio.Event", address=0x6), "receive", "idle")])
def test_task_that_waits_for_a_connection(awaits: Awaited, function: str, kind: str) -> None:
    made = asyncio_report(awaits)
    for since, expected in ((20.0, kind), (0.1, "idle")):
        task = replace(made.tasks[0], stack=(replace(CONNECTS, function=function), WORK))
        found = judge(replace(made, tasks=(task,), threads=(replace(made.threads[0], since=since),)))
        assert (found.kind, found.tasks) == (expected, (0x10,) if expected != "idle" else ())


def test_named_pipe_is_a_service_in_a_loop() -> None:
    named = replace(SOCKET, why=because("named-pipe"))
    for in_loop, kind in ((WORK, "idle"), (None, "blocked-behind")):
        assert judge(report(replace(thread(1, named), in_loop=in_loop), locks=(named,))).kind == kind


def test_event_loop_that_waits_for_a_child_only() -> None:
    assert OF_CHILD.why is not None
    of_pipe = joined([OF_CHILD.why, because("watches-pipes-only")])
    # it may have a connection to a child that serves
    for why, kind in ((of_pipe, "children"), (OF_CHILD.why, "idle")):
        watching = replace(OF_CHILD, state="waiting for events", why=why)
        assert judge(report(thread(1, watching, syscall="epoll_wait"), locks=(watching,))).kind == kind
    assert judge(report(thread(1, SERVED, syscall="epoll_wait"), locks=LOCKS)).kind == "idle"


def test_database_while_another_thread_writes() -> None:
    waiting = thread(2, blocked_on="waits-for-database")
    stored = lock("descriptor", 19, state="waiting for the disk")
    for other, kind in ((replace(thread(3, stored), since=0.01), "idle"), (replace(thread(3), since=0.01), "idle"),
                        (replace(thread(3, stored), since=2.0), "blocked-behind"),
                        (replace(thread(3, blocked_on="sleeps"), since=0.01), "blocked-behind")):
        assert judge(report(SERVING, waiting, other, locks=(stored,))).kind == kind


def test_lock_that_no_other_process_has() -> None:
    """A lock that processes share may be notified by another one, if another one has it."""
    shared = replace(lock("py-condition", 20, state="waiting for a notification"), shared=True)
    for why, kind in ((None, "idle"), (because("in-no-other-process"), "blocked-behind")):
        waits = replace(shared, why=why)
        assert judge(report(at_work(1, waits), locks=(waits,))).kind == kind


def test_only_thread_that_waits_for_another() -> None:
    """A condition variable is signalled by threads only; a semaphore may be posted in a handler of a signal."""
    condvar, semaphore = lock("condvar", 0x90), lock("semaphore", 0x91)
    for waits, kind in ((condvar, "blocked-behind"), (semaphore, "unknown")):
        made = report(thread(1, waits), locks=(condvar, semaphore))
        assert judge(replace(made, target=replace(INFO, kind="core"))).kind == kind
    assert judge(report(replace(thread(1, condvar), since=20.0), thread(2, syscall="epoll_wait"),
                        locks=(condvar,))).kind == "idle"


def test_only_thread_with_a_timeout_in_a_core() -> None:
    made = report(at_work(1, EMPTY, timed=True, since=None), locks=LOCKS)
    assert judge(replace(made, target=replace(INFO, kind="core"))).kind == "blocked-behind"
    assert judge(made).kind == "idle"


@pytest.mark.parametrize(("seconds", "kind"), [(600.0, "blocked-behind"), (2.0, "idle")])
def test_thread_that_sleeps_for_minutes_is_not_on_the_way(seconds: float, kind: str) -> None:
    sleeping = replace(sleeper(3, seconds), since=30.0)
    assert judge(report(SERVING, at_work(2, EVENT), sleeping, locks=LOCKS)).kind == kind


def test_wait_in_the_middle_of_work_in_a_core() -> None:
    made = report(SERVING, at_work(2, EVENT, since=None), replace(SLEEPING, since=None), locks=LOCKS)
    assert judge(replace(made, target=replace(INFO, kind="core"))).kind == "blocked-behind"


def test_thread_that_polls_while_others_wait_for_its_end() -> None:
    polling = replace(thread(2, blocked_on="sleeps-for"), polling=Polling(WORK, 0.1))
    joins = replace(thread(1, END_OF_2), since=2.0)
    for threads, kind in (([joins, polling], "polling"), ([replace(joins, since=0.1), polling], "idle"),
                          ([joins, polling, thread(3, status="running")], "computing"),
                          ([joins, polling, replace(at_work(3, SOCKET), syscall="recvfrom")], "idle"),
                          ([SERVING, polling], "idle"), ([polling], "polling")):
        found = judge(report(*threads, locks=LOCKS))
        assert (found.kind, found.behind) == (kind, (1,) if kind == "polling" and len(threads) > 1 else ())


def test_holder_that_polls() -> None:
    polling = replace(thread(2, blocked_on="sleeps-for"), polling=Polling(WORK, 0.1))
    for since, kind in ((2.0, "blocked-behind"), (0.1, "idle")):
        made = judge(report(replace(thread(1, HELD_BY_2), since=since), polling, locks=LOCKS))
        assert made.kind == kind


@pytest.mark.parametrize(("threads", "expected"), [
    # it waits for work, or for an answer
    ([thread(1, SOCKET)], False), ([SERVING], False), ([thread(1, blocked_on="waits-for-child")], False),
    ([thread(1, OWN_PIPE), thread(2, status="running")], False),
    # nobody at rest leaves a pipe full, and no process at rest ends these
    ([thread(1, FULL)], True), ([replace(thread(1, FULL), since=0.1)], False),
    ([thread(1, HELD_BY_2), thread(2, SOCKET)], True), ([SERVING, at_work(2, EVENT)], True),
])
def test_hang_that_no_other_process_explains(threads: list[Thread], expected: bool) -> None:
    assert is_cause(report(*threads, locks=(*LOCKS, FULL))) is expected


def asyncio_report(*awaits: Awaited, function: str = "acquire", other: Thread | None = None) -> Report:
    """An event loop that serves, with tasks that wait for these."""
    frame = PyFrame(function, function, "/usr/lib/python3/asyncio/queues.py", 1)
    tasks = tuple(Task(i, None, 0x1, 1, "pending", (frame,), each) for i, each in enumerate(awaits, 0x10))
    threads = (replace(SERVING, since=20.0), *((other,) if other is not None else ()))
    return replace(report(*threads, locks=LOCKS), tasks=tasks, event_loops=(EventLoop(0x1, "Loop", 1),))


A_LOCK, AN_EVENT = Awaited(kind="asyncio.Lock", address=0x5), Awaited(kind="asyncio.Event", address=0x6)
A_QUEUE, A_TASK = Awaited(kind="asyncio.Queue", address=0x7), Awaited((0x10,))


def test_tasks_that_wait_for_each_other() -> None:
    found = judge(asyncio_report(A_LOCK, A_TASK, AN_EVENT))
    assert (found.kind, found.threads, found.tasks) == ("blocked-behind", (1,), (0x10, 0x11, 0x12))
    assert judge(asyncio_report(A_QUEUE, function="join")).kind == "blocked-behind"


@pytest.mark.parametrize("made", [
    # at rest
    asyncio_report(AN_EVENT, Awaited((0x10,))), asyncio_report(A_QUEUE, function="get"), asyncio_report(),
    # another task waits for the world outside, or for a time
    asyncio_report(A_LOCK, Awaited(kind="asyncio.StreamReader")),
    asyncio_report(A_LOCK, Awaited(kind="Future", others=1)),
    asyncio_report(A_LOCK, Awaited(kind="asyncio.sleep")), asyncio_report(A_LOCK, replace(A_LOCK, timed=True)),
    asyncio_report(A_LOCK, Awaited()),
])
def test_tasks_that_may_go_on(made: Report) -> None:
    assert judge(made).kind == "idle"


def test_tasks_while_a_thread_runs() -> None:
    assert judge(asyncio_report(A_LOCK, other=thread(2, status="running"))).kind == "computing"


def test_result_that_is_made_again_and_again() -> None:
    """While threads go on after a time, a wait that has just begun says nothing."""
    for since, kind in ((0.1, "idle"), (2.0, "blocked-behind"), (None, "blocked-behind")):
        made = report(SERVING, replace(thread(2, RESULT), since=since), SLEEPING, locks=LOCKS)
        assert judge(made).kind == kind
    assert judge(report(SERVING, replace(thread(2, RESULT), since=0.1), locks=LOCKS)).kind == "blocked-behind"
    just_now = replace(SERVING, since=0.01)
    assert judge(report(just_now, replace(thread(2, RESULT), since=0.1), locks=LOCKS)).kind == "idle"


def looking_up(since: float | None) -> Thread:
    return replace(thread(2, DNS, timed=True), since=since,
                   stack=(NativeFrame("__poll", "libc.so.6", 1), NativeFrame("getaddrinfo", "libc.so.6", 2)))


@pytest.mark.parametrize(("found", "kind"), [
    (replace(thread(2, blocked_on="waits-for-file-system"), since=2.0), "blocked-behind"),
    (replace(thread(2, blocked_on="opens"), since=2.0), "blocked-behind"),
    (looking_up(2.0), "blocked-behind"),
    # an answer that takes a moment
    (replace(thread(2, blocked_on="waits-for-file-system"), since=0.1), "idle"), (looking_up(0.1), "idle"),
    (replace(thread(2, DNS, timed=True), since=2.0), "idle"),
])
def test_file_systems_and_name_servers_that_do_not_answer(found: Thread, kind: str) -> None:
    made = judge(report(SERVING, found, locks=(*LOCKS, DNS)))
    assert made.kind == kind
    assert made.threads == ((2,) if kind == "blocked-behind" else ())


WORKERS = (("/usr/lib/python3.11/concurrent/futures/process.py", "_process_worker"),
           ("/usr/lib/python3.11/multiprocessing/pool.py", "worker"))


@pytest.mark.parametrize(("file", "function"), WORKERS)
def test_worker_of_a_pool_of_processes(file: str, function: str) -> None:
    """It waits for its next call, or in one."""
    worker = PyFrame(function, function, file, 1)
    reads = PyFrame("recv", "recv", "/usr/lib/python3.11/multiprocessing/connection.py", 1)
    for waits in (SOCKET, UNKNOWN):
        idle = replace(thread(1, waits), stack=(reads, worker))
        assert judge(report(idle, locks=LOCKS)).kind == "idle"
        busy = replace(idle, stack=(reads, WORK, worker))
        assert judge(report(busy, locks=LOCKS)).kind != "idle"


def test_event_loop_that_waits_for_a_thread_to_end() -> None:
    ends = PyFrame("_do_shutdown", "_do_shutdown", "/usr/lib/python3.11/asyncio/base_events.py", 1)
    closing = replace(thread(4, END_OF_2), stack=(ends,))
    accepts = replace(thread(2, SOCKET), syscall="accept4")
    found = judge(report(SERVING, accepts, closing, locks=LOCKS))
    assert (found.kind, found.threads, found.behind) == ("blocked-behind", (2,), (4,))
    assert judge(report(SERVING, accepts, thread(4, END_OF_2), locks=LOCKS)).kind == "idle"


OPERATION = replace(lock("collective", 23, state="not finished"), name="all_reduce #6 of default_pg")


def rank(ago: float | None = None) -> Rank:
    pending = (Operation("all_reduce", 6, begun=1000.0 - ago),) if ago is not None else ()
    return Rank(Identity(0, 2), (Group("0", "default_pg", None, pending),))


@pytest.mark.parametrize(("threads", "ago", "kind", "numbers", "behind"), [
    # a thread waits for the operation
    ([thread(1, OPERATION)], None, "job", (1,), ()),
    ([thread(1, HELD_BY_2), thread(2, OPERATION)], None, "job", (2,), (1,)),
    # or none is known to, and the operation should have ended long ago
    ([thread(1, EVENT)], 60.0, "job", (1,), ()),
    ([thread(1, EVENT), thread(2, OPERATION)], 60.0, "job", (2,), ()),
    # healthy: the operation has just begun, or runs beside other work
    ([thread(1, SERVED, syscall="epoll_wait")], 1.0, "idle", (), ()),
    ([thread(1, SERVED, syscall="epoll_wait")], None, "idle", (), ()),
    ([thread(1, status="running"), thread(2, EVENT)], 60.0, "computing", (1,), ()),
])
def test_operations_of_a_job(threads: list[Thread], ago: float | None, kind: str, numbers: tuple[int, ...],
                             behind: tuple[int, ...]) -> None:
    made = replace(report(*threads, locks=(*LOCKS, OPERATION)), rank=rank(ago), target=replace(INFO, time=1000.0))
    found = judge(made)
    assert (found.kind, found.threads, found.behind) == (kind, numbers, behind)


def test_deadlock_of_a_rank_is_more_than_its_operation() -> None:
    made = replace(gil_deadlock(), rank=rank(60.0))
    assert judge(replace(made, target=replace(made.target, time=1000.0))).kind == "deadlock"


def test_core_in_which_only_threads_of_the_process_could_end_the_waits() -> None:
    semaphore = lock("semaphore", 0x10, state="zero")
    condition = lock("condvar", 0x20, state="waiting for a signal")
    live = report(thread(1, semaphore), thread(2, condition), locks=(semaphore, condition))
    core = replace(live, target=replace(INFO, kind="core"))
    assert judge(core) == Verdict("unknown", (1, 2), evidence=INFERRED)
    assert judge(live).kind == "idle"  # of a process, it is known whether signals have handlers
    # time passes, or something outside of the process happens
    for other in (thread(2, condition, timed=True), thread(2, syscall="accept"), thread(2, status="running")):
        assert judge(replace(core, threads=(core.threads[0], other))).kind in ("idle", "computing")
