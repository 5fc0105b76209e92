from __future__ import annotations

import dataclasses
import re

import pytest

from gdbext.model import (
    DERIVED,
    EXCLUSIVE,
    RECORDED,
    SHARED,
    Columns,
    Deadlock,
    Edge,
    Frame,
    Gil,
    Hold,
    Holder,
    Lock,
    NativeFrame,
    Part,
    PyFrame,
    Report,
    StopTheWorld,
    Thread,
    ThreadStatus,
    Wait,
    Waiter,
)
from gdbext.model.reasons import because
from gdbext.render.escape import concatenated
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from tests.support.fake_report import (
    COUNTED,
    gil_deadlock,
    healthy,
    hostile,
    inferred_deadlock,
    orphaned,
    standstill_of_workers,
    world_that_does_not_stop,
)

REPORTS = {"gil": gil_deadlock, "inferred": inferred_deadlock, "orphaned": orphaned, "healthy": healthy,
           "world": world_that_does_not_stop}
SGR = re.compile(r"\x1b\[[0-9;]*m")
LINES = {41: "    lib.update(self.table)  ", 17: "lock.acquire()"}


def source(file: str, line: int) -> str | None:
    return LINES.get(line)


def renderer(report: Report, colour: bool = False) -> TextRenderer:
    return TextRenderer(report, Style(colour), source)


def all_texts(report: Report, colour: bool = False) -> dict[str, str]:
    made = renderer(report, colour)
    numbers = [thread.number for thread in report.threads]
    return {"deadlocks": made.deadlocks(), "gils": made.gils(), "locks": made.locks(report.locks),
            "threads": made.threads(numbers, False, "full"), "each": made.threads(numbers, True, "top"),
            "none": made.threads(numbers, False, "none")}


HEADER = "gdbext: /usr/bin/python3.11  PID 885, CPython 3.11.7\n\n"
VERDICT = HEADER + """\
DEADLOCK: 2 threads wait for each other; 1 more is stuck behind them.

  Thread 1 (LWP 885, TID 1) "MainThread"
    holds the GIL
    needs pthread rwlock 0x5591e0c0 in libdrv.so to write, write-locked by thread 2 "loader"
"""


def test_verdict_with_places() -> None:
    assert renderer(gil_deadlock()).deadlocks("none") == VERDICT + """\
          in update_table () in libdrv.so at /src/drv.c:12
          at /app/job.py:41 in update
            lib.update(self.table)

  Thread 2 (LWP 886, TID 2) "loader"
    holds pthread rwlock 0x5591e0c0 in libdrv.so
    needs the GIL, held by thread 1 "MainThread"
          at /app/job.py:17 in work
            lock.acquire()

Cycle: thread 1 -> pthread rwlock 0x5591e0c0 in libdrv.so -> thread 2; thread 2 -> the GIL -> thread 1

Stuck behind it: thread 3 "reader" waits for pthread rwlock 0x5591e0c0 in libdrv.so to read, \
write-locked by thread 2 "loader", at work job.py:17

How this is known: recorded: the locks name their owners

Note: no layout table for CPython 3.11.7; the table for 3.11.2 fits and is used
Not known: thread 5: unreadable: it runs
"""


def test_verdict_with_the_frames_that_explain_it() -> None:
    assert renderer(gil_deadlock()).deadlocks().startswith(VERDICT + """\
    #0   pthread_rwlock_wrlock () in libc.so.6
         drv::Guard<T>::Guard () inlined at /src/guard.h:7
         drv::enter () inlined
    #1   update_table () in libdrv.so at /src/drv.c:12
    #2   update at /app/job.py:41
             lib.update(self.table)
    #3   main at /app/job.py:90
         ... 1 frame

  Thread 2 (LWP 886, TID 2) "loader"
    holds pthread rwlock 0x5591e0c0 in libdrv.so
    needs the GIL, held by thread 1 "MainThread"
         ... 1 frame
    #1   work at /app/job.py:17
             lock.acquire()
         ... 1 frame

Cycle:""")


def test_stacks_follow_the_verdict_once() -> None:
    text = renderer(gil_deadlock()).threads(None, False, "full")
    verdict, _, stacks = text.partition("\nThreads:\n")
    assert verdict.startswith(VERDICT)
    assert "#0" not in verdict
    assert stacks.count("update at /app/job.py:41") == 1
    assert stacks.endswith("Not known: thread 5: unreadable: it runs\n")


def test_header_has_what_is_known_of_the_target() -> None:
    report = gil_deadlock()
    target = dataclasses.replace(report.target, command_line="python3 app.py\n --fast", host="web-3", time=1795352341,
                                 paused=0.0912)
    text = renderer(dataclasses.replace(report, target=target)).deadlocks()
    assert text.startswith("gdbext: python3 app.py\\x0a --fast  PID 885 on web-3, CPython 3.11.7, "
                           "2026-11-22 12:59:01Z, paused 0.09 s\n\nDEADLOCK: ")
    text = renderer(dataclasses.replace(report, target=dataclasses.replace(target, paused=0.0))).deadlocks()
    assert "12:59:01Z, not paused\n" in text
    target = dataclasses.replace(target, kind="core", host=None, paused=None, time=float("1e300"))
    text = renderer(dataclasses.replace(report, target=target)).deadlocks()
    assert text.startswith("gdbext: python3 app.py\\x0a --fast  core of PID 885, CPython 3.11.7, at an unknown time\n")
    target = dataclasses.replace(target, kept=1_000_000, whole=2_000_000)
    text = renderer(dataclasses.replace(report, target=target)).deadlocks()
    assert "  core of PID 885, truncated: only 1,000,000 of 2,000,000 bytes are there, CPython " in text


def test_evidence_is_shown_once() -> None:
    text = renderer(inferred_deadlock()).deadlocks()
    why = "inferred: 1 reader counted, none recorded; 1 thread has the lock's address on the stack"
    assert f"How this is known:\n  {why}\n  recorded: the locks name their owners\n" in text
    assert 'read-locked by thread 2 "b"\n' in text
    assert text.count("inferred") == 1
    threads = "\n".join(renderer(inferred_deadlock()).thread_list(None, False, "full"))
    assert f"holds pthread rwlock 0x6000 for reading ({why})" in threads
    assert threads.count("inferred") == 1


def test_colour_does_not_change_the_layout_of_a_cycle() -> None:
    for report in (gil_deadlock(), standstill_of_workers(100, queues=30)):
        assert SGR.sub("", renderer(report, colour=True).deadlocks()) == renderer(report).deadlocks()
    assert "Cycle: thread 1 -> pthread rwlock" in renderer(gil_deadlock(), colour=True).deadlocks()


def test_thread_that_has_not_arrived_does_not_hold_the_barrier() -> None:
    report = inferred_deadlock()
    locks = tuple(dataclasses.replace(lock, kind="barrier", state="1 of 2 arrived") if lock.id == COUNTED else lock
                  for lock in report.locks)
    text = renderer(dataclasses.replace(report, locks=locks)).deadlocks()
    assert "    has not arrived at barrier 0x6000\n" in text
    assert "holds barrier" not in text


def test_owner_that_is_gone() -> None:
    text = renderer(orphaned()).deadlocks()
    assert "LOCK WITHOUT OWNER: 1 thread waits for an owner that is gone (thread exited).\n" in text
    assert "its owner is gone: thread exited (its owner had TID 4242)" in text
    assert "Wait: thread 1 -> pthread mutex 0x10 accounts in bank -> nobody" in text


WORKERS = """\
  100 threads 2-101 ("worker-2" ... "worker-101")
    each needs queue.Queue 0x100 jobs, queue is empty
"""


def test_deadlocked_threads_with_the_same_wait_are_shown_once() -> None:
    text = renderer(standstill_of_workers(100)).deadlocks("none")
    assert "STANDSTILL: all 101 threads wait for what only the others could do; " in text
    assert WORKERS in text
    assert len(text.splitlines()) < 20


def test_deadlock_of_many_different_threads_is_cut() -> None:
    text = renderer(standstill_of_workers(100, queues=30)).deadlocks()
    assert text.count("    each needs queue.Queue") == 19
    assert re.search(r"^  And \d+ more: threads .*$", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) < 200


def test_readers_of_the_same_lock_are_grouped_in_a_cycle() -> None:
    rwlock, mutex = "rwlock:0x1", "mutex:0x2"
    readers = range(2, 52)
    threads = (Thread(1, 1, 1, None, waits=Wait(rwlock, EXCLUSIVE, False), holds=(Hold(mutex, EXCLUSIVE, RECORDED),)),
               *(Thread(number, number, number, None, waits=Wait(mutex, EXCLUSIVE, False),
                        holds=(Hold(rwlock, SHARED, RECORDED),)) for number in readers))
    locks = (Lock(rwlock, "rwlock", 1, None, "read-locked",
                  tuple(Holder(number, SHARED, RECORDED) for number in readers)),
             Lock(mutex, "mutex", 2, None, "locked", (Holder(1, EXCLUSIVE, RECORDED),)))
    edges = (*(Edge(1, rwlock, number) for number in readers), *(Edge(number, mutex, 1) for number in readers))
    report = dataclasses.replace(healthy(), threads=threads, locks=locks, deadlocks=(
        Deadlock(tuple(range(1, 52)), RECORDED, edges),))
    text = renderer(report).deadlocks()
    assert ("Cycle: thread 1 -> pthread rwlock 0x1 -> threads 2-51; "
            "threads 2-51 -> pthread mutex 0x2 -> thread 1\n") in text
    assert "    needs pthread rwlock 0x1 to write, read-locked by threads 2-51\n" in text
    assert ("  50 threads 2-51\n    each holds pthread rwlock 0x1 for reading\n"
            "    each needs pthread mutex 0x2, held by thread 1\n") in text


def test_no_deadlock_shows_what_the_threads_do() -> None:
    text = renderer(healthy()).deadlocks()
    assert ('COMPUTING: no deadlock found; thread 1 "MainThread" runs in update job.py:41; '
            "1 thread waits for it.\n") in text
    assert "3 threads: 1 waits for a lock or event, 1 is in another system call, 1 runs." in text
    assert 'The GIL is held by thread 1 "MainThread".\n' in text


def test_sentence_of_the_verdict_is_shown_once() -> None:
    pipe = Lock("descriptor:1", "descriptor", 3, "fd 3, pipe:[1]", "waiting to read", waiters=(Waiter(1, EXCLUSIVE),))
    report = dataclasses.replace(healthy(), locks=(pipe,), threads=(
        Thread(1, 1, 1, "main", waits=Wait(pipe.id, EXCLUSIVE, False), status="blocked", syscall="read"),
        Thread(2, 2, 2, "idle", status="blocked", syscall="poll")))
    text = renderer(report).threads(None, False, "full")
    assert 'BLOCKED: thread 1 "main" waits to read from fd 3, pipe:[1].\n\n  Thread 1 (LWP 1) "main"\n' in text
    assert text.count("waits to read from") == 1
    assert '\nThreads:\n\nThread 1 (LWP 1) "main" (see above)\n' in text
    # of other threads the list says what they do
    assert '\nThread 2 (LWP 2) "idle" is in the system call poll\n' in text


def test_gil_holder_is_described_unless_the_sentence_is_about_it() -> None:
    report = healthy()
    first = dataclasses.replace(report.threads[1], number=0, waits=None, status="running")
    text = renderer(dataclasses.replace(report, threads=(first, report.threads[0]))).deadlocks()
    assert 'no deadlock found; thread 0 "loader" runs' in text
    assert 'The GIL is held by thread 1 "MainThread", which runs.' in text


def test_thread_that_waits_for_itself() -> None:
    report = gil_deadlock()
    deadlock = Deadlock((1,), RECORDED, (Edge(1, "rwlock:0x5591e0c0", 1),))
    text = renderer(dataclasses.replace(report, deadlocks=(deadlock,))).deadlocks()
    assert "DEADLOCK: a thread waits for itself.\n" in text


def test_gil() -> None:
    text = renderer(gil_deadlock()).gils()
    assert text.startswith("CPython 3.11.7 in libpython3.11.so.1.0 (layout: table)\n")
    assert '  GIL held by thread 1 "MainThread"\n    which waits for pthread rwlock 0x5591e0c0' in text
    assert "waited for by thread 2; its holder has been asked to release it" in text


@pytest.mark.parametrize(("gil", "expected"), [
    (Gil("gil:0", 1, "free"), "GIL free\n    no thread waits for it"),
    (Gil("gil:0", 1, "disabled"), "no GIL (free-threaded)"),
    (Gil("", 0, "unknown"), "GIL unknown"),
    (Gil("gil:0", 1, "held", None, RECORDED, (2,), None, because("thread-exited")),
     "GIL held, but its owner is gone: thread exited"),
    (Gil("gil:0", 1, "held", None, RECORDED), "GIL held, but its owner is gone\n"),
])
def test_other_states_of_the_gil(gil: Gil, expected: str) -> None:
    report = gil_deadlock()
    interpreter = dataclasses.replace(report.runtimes[0].interpreters[0], gil=gil)
    runtime = dataclasses.replace(report.runtimes[0], interpreters=(interpreter,))
    assert expected in renderer(dataclasses.replace(report, runtimes=(runtime,))).gils()


def test_stop_the_world() -> None:
    report = gil_deadlock()
    stop = StopTheWorld(True, 1, (2, 3))
    interpreter = dataclasses.replace(report.runtimes[0].interpreters[0], stop_the_world=stop)
    runtime = dataclasses.replace(report.runtimes[0], interpreters=(interpreter,))
    text = renderer(dataclasses.replace(report, runtimes=(runtime,))).gils()
    assert 'stop-the-world requested by thread 1 "MainThread", waiting for threads 2, 3' in text


def test_world_that_does_not_stop() -> None:
    text = renderer(world_that_does_not_stop()).deadlocks()
    assert """
  Thread 1 (LWP 885, TID 1) "collector"
    holds stop-the-world 0x100: it has requested it
    needs stop-the-world 0x104 for the world to stop, 1 not stopped: thread 2 "user"
""" in text
    assert """
    holds stop-the-world 0x104 up: it has not stopped
    needs critical section 0x20a shelf (list), held by thread 3 "sorter"
""" in text
    assert "needs stop-the-world 0x100 for the world to go on, requested by thread 1 \"collector\"" in text


def test_critical_sections_that_are_suspended() -> None:
    text = all_texts(world_that_does_not_stop())["none"]
    assert "has suspended its critical section of dict object at 0x300" in text
    assert text.count("has suspended") == 1


def test_states_of_threads_without_a_gil() -> None:
    assert renderer(world_that_does_not_stop()).gils() == """\
CPython 3.13.15, free-threaded in python3.13t (layout: table)
  no GIL (free-threaded)
    attached (may run Python): thread 2
    detached (outside of Python): thread 1
    suspended (stopped by another thread): thread 3
    stop-the-world requested by thread 1 "collector", waiting for thread 2
"""


def test_interpreters_that_share_a_gil() -> None:
    report = gil_deadlock()
    first = report.runtimes[0].interpreters[0]
    runtime = dataclasses.replace(report.runtimes[0], interpreters=(first, dataclasses.replace(first, id=1)))
    text = renderer(dataclasses.replace(report, runtimes=(runtime,))).gils()
    assert 'interpreter 0: GIL held by thread 1' in text
    assert "interpreter 1: shares gil:0" in text


def test_locks() -> None:
    report = gil_deadlock()
    text = renderer(report).locks(report.locks)
    assert 'Pthread rwlock 0x5591e0c0 in libdrv.so, write-locked by thread 2 "loader"' in text
    assert "  waited for to write by thread 1\n  waited for to read by thread 3\n" in text
    assert ("Pthread rwlock 0x6000, read-locked; holders not recorded, candidates: threads 3, 4 "
            "(2 readers counted, none recorded; 2 threads have the lock's address on the stack)") in text
    assert "no thread waits for it" in text
    assert renderer(report).locks([]).startswith("No thread waits for such a lock.")


def test_threads_with_the_same_stack_are_shown_once() -> None:
    report = healthy()
    worker = dataclasses.replace(report.threads[1], holds=())
    threads = [dataclasses.replace(worker, number=number, lwp=number) for number in range(10, 50)]
    shown = dataclasses.replace(report, threads=(report.threads[0], *threads))
    numbers = [thread.number for thread in shown.threads]
    text = renderer(shown).threads(numbers, False, "full")
    assert text.partition("Threads:")[2].count("work at /app/job.py:17") == 1
    assert '40 threads 10-49 ("loader"): each waits for the GIL' in text
    assert renderer(shown).threads(numbers, True, "full").count("  work at /app/job.py:17") == 40


def grouped(names: dict[int, str | None]) -> str:
    """The heading of threads with the same stack."""
    report = healthy()
    worker = dataclasses.replace(report.threads[1], holds=(), name=None)
    threads = [dataclasses.replace(worker, number=number, python_name=name) for number, name in names.items()]
    made = renderer(dataclasses.replace(report, threads=tuple(threads)))
    return made.thread_list(list(names), False, "none")[0].partition(":")[0]


@pytest.mark.parametrize(("names", "expected"), [
    ({number: f"worker_{number - 3}" for number in range(3, 15)}, '12 threads 3-14 ("worker_0" ... "worker_11")'),
    ({3: "a", 4: "b"}, '2 threads 3, 4 ("a", "b")'),
    ({3: "a", 5: "a", 6: None}, '3 threads 3, 5, 6 ("a")'),
    ({3: None, 4: None}, "2 threads 3, 4"),
    ({2: "io-1", 3: "io-2", 4: "w-1", 5: "w-2", 6: "w-3", 7: "log"}, (
        '6 threads 2-7 ("io-1", "io-2", "w-1" ... "w-3", "log")')),
    ({number: "ab"[number % 2] * number for number in range(2, 40, 2)}, (
        "19 threads 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38 "
        '("aa", "aaaa", "aaaaaa", "aaaaaaaa" and 15 more names)')),
    (dict.fromkeys(range(1, 100, 2)), (
        "50 threads 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39 and 30 more")),
])
def test_numbers_and_names_of_threads_with_the_same_stack(names: dict[int, str | None], expected: str) -> None:
    assert grouped(names) == expected


def test_imports_of_different_modules_are_not_grouped() -> None:
    report = healthy()
    worker = dataclasses.replace(report.threads[1], holds=())
    threads = [dataclasses.replace(worker, number=number, parts=(
        Part(worker.stack[:1]), Part(worker.stack[1:], f"import of module_{number // 2}"))) for number in (2, 3, 4)]
    text = renderer(dataclasses.replace(report, threads=tuple(threads))).threads([2, 3, 4], False, "full")
    assert "2 threads 2, 3" in text
    assert text.count("import of module_1") == text.count("import of module_2") == 1


def test_order_of_threads() -> None:
    """Deadlocked, holder, stuck, waiting for a lock or result, running, in a call, unread, waiting for an event."""
    def thread(number: int, lock: str | None = None, status: ThreadStatus = "blocked") -> Thread:
        waits = Wait(lock, EXCLUSIVE, False) if lock is not None else None
        return Thread(number, number, number, None, status=status, waits=waits)

    locks = (Lock("mutex:0x1", "mutex", 1, None, "locked", (Holder(9, EXCLUSIVE, RECORDED),), (Waiter(7, EXCLUSIVE),)),
             Lock("mutex:0x2", "mutex", 2, None, "locked", (Holder(7, EXCLUSIVE, RECORDED),), (Waiter(9, EXCLUSIVE),)),
             Lock("mutex:0x3", "mutex", 3, None, "locked", (Holder(8, EXCLUSIVE, RECORDED),), (Waiter(4, EXCLUSIVE),)),
             Lock("mutex:0x4", "mutex", 4, None, "locked", (Holder(5, EXCLUSIVE, RECORDED),)),
             Lock("py-condition:0x5", "py-condition", 5, None, "queue is empty", (), (Waiter(1, EXCLUSIVE),)),
             Lock("py-event:0x6", "py-event", 6, None, "result is pending", (), (Waiter(11, EXCLUSIVE),)),
             Lock("descriptor:0", "descriptor", 0, None, "waiting to read", (), (Waiter(2, EXCLUSIVE),)))
    threads = (thread(1, "py-condition:0x5"), thread(2, "descriptor:0"), thread(3), thread(4, "mutex:0x3"),
               thread(5, status="running"), thread(6, "mutex:0x1"), thread(7, "mutex:0x1"),
               thread(8, "py-condition:0x5"), thread(9, "mutex:0x2"), thread(10, status="unknown"),
               thread(11, "py-event:0x6"))
    deadlock = Deadlock((9, 7), RECORDED, (Edge(9, "mutex:0x2", 7), Edge(7, "mutex:0x1", 9)), None, (6,))
    made = renderer(dataclasses.replace(healthy(), threads=threads, locks=locks, deadlocks=(deadlock,)))
    order = [9, 7, 8, 6, 4, 11, 5, 2, 3, 10, 1]
    assert made.order_of_threads() == order
    text = made.threads(None, True, "none").partition("Deadlock 1")[0]
    assert [int(number) for number in re.findall(r"^Thread (\d+)", text, re.MULTILINE)] == order
    # requested threads keep their order
    text = made.threads([1, 7, 9], True, "none").partition("Deadlock 1")[0]
    assert [int(number) for number in re.findall(r"^Thread (\d+)", text, re.MULTILINE)] == [1, 7, 9]


def test_threads_that_hold_locks_are_not_grouped() -> None:
    report = gil_deadlock()
    text = renderer(report).threads([2, 3], False, "full")
    assert text.count("work at /app/job.py:17") >= 2


def test_full_top_and_no_stacks() -> None:
    made = renderer(gil_deadlock())
    full, top, none = (made.threads([1], False, how).split("Threads:")[1] for how in ("full", "top", "none"))
    assert "#4" in full
    assert "#2" in top
    assert "#3" not in top
    assert "... 2 frames" in top
    assert "#0" not in none


@pytest.mark.parametrize(("stacks", "frames"), [("full", 2), ("top", 2), ("none", 0)])
def test_each_stack_is_shown_once(stacks: str, frames: int) -> None:
    verdict, _, threads = renderer(standstill_of_workers(100)).threads(None, False, stacks).partition("Threads:")
    assert (verdict.count("#0 "), threads.count("#0 ")) == (0, frames)
    assert '100 threads 2-101 ("worker-2" ... "worker-101"): each waits for queue.Queue 0x100 jobs' in threads


def test_unmerged_stack_shows_the_reason() -> None:
    report = gil_deadlock()
    first = dataclasses.replace(report.threads[0], unmerged=because("text", text="no frame descriptions"))
    shown = dataclasses.replace(report, threads=(first, *report.threads[1:]))
    assert "Python frames first, then native ones: no frame descriptions" in renderer(shown).threads([1], False, "full")


def test_evidence_of_a_wait() -> None:
    report = gil_deadlock()
    waits = Wait("gil:0", EXCLUSIVE, False, DERIVED, because("runs-take-gil"))
    second = dataclasses.replace(report.threads[1], waits=waits)
    shown = dataclasses.replace(report, threads=(report.threads[0], second))
    text = "\n".join(renderer(shown).thread_list(None, False, "none"))
    assert "waits for the GIL, held by thread 1 \"MainThread\" (derived: it runs take_gil, and another" in text


def test_timed_wait() -> None:
    report = healthy()
    lock = Lock("semaphore:0x10", "semaphore", 0x10, None, "zero", wait_for="any",
                why=because("semaphore-has-no-owner"))
    thread = Thread(1, 10, 10, None, status="blocked", waits=Wait(lock.id, EXCLUSIVE, True))
    text = renderer(dataclasses.replace(report, threads=(thread,), locks=(lock,))).threads([1], False, "none")
    assert ("waits for POSIX semaphore 0x10, zero (a semaphore has no owner: any thread may post it), "
            "with a timeout") in text


def test_long_stacks_are_cut_in_a_verdict() -> None:
    report = gil_deadlock()
    deep = tuple(PyFrame(f"f{i}", f"f{i}", "/app/job.py", i) for i in range(500))
    first = dataclasses.replace(report.threads[0], stack=deep)
    text = renderer(dataclasses.replace(report, threads=(first, *report.threads[1:]))).deadlocks()
    assert "f5 at" in text
    assert "f6 at" not in text
    assert "... 494 frames" in text


def test_unknown_line_number() -> None:
    report = gil_deadlock()
    first = dataclasses.replace(report.threads[0], stack=(PyFrame("f", "f", "x.py", None),))
    assert "f at x.py:?" in renderer(dataclasses.replace(report, threads=(first, *report.threads[1:]))).deadlocks()


@pytest.mark.parametrize("name", REPORTS)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    report = REPORTS[name]()
    for kind, text in all_texts(report).items():
        coloured = all_texts(report, True)[kind]
        assert SGR.sub("", coloured) == text
        assert "\x1b" not in text


@pytest.mark.parametrize("name", REPORTS)
def test_text_from_the_target_is_escaped(name: str) -> None:
    report = hostile(REPORTS[name]())
    for colour in (False, True):
        for kind, text in all_texts(report, colour).items():
            plain = SGR.sub("", text) if colour else text
            bad = {char for char in plain if char != "\n" and not char.isprintable()}
            assert not bad, (kind, bad)
            text.encode()


@pytest.mark.parametrize("name", REPORTS)
def test_hostile_names_add_no_lines(name: str) -> None:
    plain, bad = all_texts(REPORTS[name]()), all_texts(hostile(REPORTS[name]()))
    for kind in ("deadlocks", "gils", "locks"):
        assert abs(len(plain[kind].splitlines()) - len(bad[kind].splitlines())) <= 3, kind


def test_hostile_source_line() -> None:
    made = TextRenderer(gil_deadlock(), Style(), lambda file, line: "x = '\x1b[2J'\r\n")
    assert "\x1b" not in made.deadlocks()
    assert "x = '\\x1b[2J'" in made.deadlocks()


# -- boundaries ------------------------------------------------------------------------------------------------

def called() -> tuple[Part, ...]:
    """A thread in a library function, called through ctypes by a callback of another library."""
    def native(function: str | None, module: str, count: int = 1) -> tuple[Frame, ...]:
        return (NativeFrame(function, module, 0x1000),) * count

    return (Part(native("pthread_mutex_lock", "libc.so.6")), Part(native("__pyx_f_3lib_take", "lib.so"), note="Cython",
                                                                  name="lib.take"),
            Part(native(None, "libffi.so.8", 3), text="ctypes call of take()"),
            Part((PyFrame("handle", "handle", "/app/job.py", 41),), note="signal handler"),
            Part(native(None, "_ctypes.so", 2), text="ctypes callback"), Part(native(None, "libdrv.so")),
            Part((PyFrame("work", "work", "/app/job.py", 17),)),
            Part((PyFrame("run", "Thread.run", "/lib/threading.py", 1), *native("start_thread", "libc.so.6")),
                 text="thread start"))


def with_parts(parts: tuple[Part, ...]) -> TextRenderer:
    report = gil_deadlock()
    stack = tuple(frame for part in parts for frame in part.frames)
    first = dataclasses.replace(report.threads[0], stack=stack, parts=parts)
    return renderer(dataclasses.replace(report, threads=(first, *report.threads[1:])))


def test_boundaries_are_named_in_stacks() -> None:
    text = with_parts(called()).threads([1], False, "full").partition("Threads:")[2]
    assert text.partition("  #")[2].partition("\n\n")[0] == """\
0   pthread_mutex_lock () in libc.so.6
  #1   lib.take () in lib.so [Cython]
       ... ctypes call of take() (3 frames)
  #5   handle at /app/job.py:41 [signal handler]
           lib.update(self.table)
       ... ctypes callback (2 frames)
  #8   0x1000 () in libdrv.so
  #9   work at /app/job.py:17
           lock.acquire()
       ... thread start (2 frames)"""


def test_folded_parts_do_not_count_as_first_frames() -> None:
    text = with_parts(called()).threads([1], False, "top").partition("Threads:\n\n")[2].partition("\n\n")[0]
    assert "ctypes call of take() (3 frames)\n  #5   handle at" in text
    assert text.endswith("       ... 6 frames, with ctypes callback")


def test_boundaries_are_named_in_a_verdict() -> None:
    text = with_parts(called()).deadlocks()
    assert text.partition("    #")[2].partition("\n\n")[0] == """\
0   pthread_mutex_lock () in libc.so.6
    #1   lib.take () in lib.so [Cython]
         ... ctypes call of take() (3 frames)
    #5   handle at /app/job.py:41 [signal handler]
             lib.update(self.table)
         ... 3 frames, with ctypes callback
    #9   work at /app/job.py:17
             lock.acquire()
         ... thread start (2 frames)"""


def test_frames_outside_the_outermost_python_frame_are_omitted() -> None:
    native = Part((NativeFrame("boot", "app", 0x1000),))
    text = with_parts((*called()[:1], Part((PyFrame("f", "f", "/a.py", 1),)), native, called()[-1])).deadlocks()
    assert "boot" not in text
    assert "         ... 3 frames\n" in text


# -- the terminal's width ----------------------------------------------------------------------------------------

def fitted(report: Report, width: int, line: str = "    return cache.update(self.table, key)") -> str:
    style = Style(width=width)
    made = TextRenderer(report, style, lambda file, number: line)
    numbers = [thread.number for thread in report.threads]
    return style.wrap(concatenated([made.threads(numbers, False, "full"), made.gils(), made.locks(report.locks)]))


def long_paths(report: Report) -> Report:
    """The report with long paths."""
    frame = PyFrame("update", "Table.update", "/srv/releases/2024-11-07/app/lib/python3.11/pkg/table.py", 41,
                    Columns(11, 40, 41))
    native = NativeFrame("update_table", "libdrv.so", 0x7F0000002000, "/build/reproducible-path/drv-1.2/src/drv.c", 12)
    first = dataclasses.replace(report.threads[0], stack=(native, frame))
    return dataclasses.replace(report, threads=(first, *report.threads[1:]))


@pytest.mark.parametrize("width", [60, 72, 80, 100, 150])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = fitted(long_paths(gil_deadlock()), width, "    return " + "cache." * 30 + "update()")
    assert max(map(len, text.splitlines())) <= width
    plain = " ".join(fitted(long_paths(gil_deadlock()), 10_000).split())
    # all evidence is present
    for word in re.findall(r"0x[0-9a-f]+|threads? \d+|LWP \d+|table\.py:41|drv\.c:12|inferred|recorded", plain):
        assert word in " ".join(text.split()), word


def test_paths_are_shortened_to_the_width() -> None:
    text = fitted(long_paths(gil_deadlock()), 60)
    assert "  #0   update_table () in libdrv.so at .../src/drv.c:12\n" in text
    assert "  #1   update at .../app/lib/python3.11/pkg/table.py:41\n" in text
    wide = fitted(long_paths(gil_deadlock()), 1000)
    assert "update at /srv/releases/2024-11-07/app/lib/python3.11/pkg/table.py:41\n" in wide


def test_running_part_stays_in_view() -> None:
    line = "x = " + "a + " * 30 + "running(1)" + " + b" * 30
    frame = PyFrame("f", "f", "/app/job.py", 5, Columns(124, 134, 5))
    for width in range(45, 200):
        made = TextRenderer(healthy(), Style(width=width), lambda file, number: line)
        _, shown, carets = made.stack((frame,), None)
        assert len(shown) <= width
        assert shown[carets.index("^"):carets.rindex("^") + 1] == "running(1)"


def test_context_lines_fit_the_width() -> None:
    lines = {4: "if x:", 5: " " * 200 + "f(" + "a, " * 40 + ")", 6: "    " + "b" * 200}
    made = TextRenderer(healthy(), Style(width=60), lambda file, number: lines.get(number), 1)
    frame = PyFrame("f", "f", "/app/job.py", 5, None)
    shown = made.stack((frame,), None)
    assert len(shown) == 4
    assert max(map(len, shown)) <= 60


def test_colour_does_not_change_line_breaks() -> None:
    report = long_paths(gil_deadlock())
    for width in (45, 60, 80):
        texts = []
        for colour in (False, True):
            style = Style(colour, width)
            made = TextRenderer(report, style, lambda file, number: "    return cache.update(self.table, key)")
            texts.append(style.wrap(made.threads(None, False, "full")))
        assert SGR.sub("", texts[1]) == texts[0]


# -- source lines ---------------------------------------------------------------------------------------------

def shown_source(text: str, columns: Columns | None, colour: bool = False, line: int = 5) -> list[str]:
    """The lines below a frame that runs a part of a line."""
    frame = PyFrame("f", "f", "/app/job.py", line, columns)
    made = TextRenderer(healthy(), Style(colour), lambda file, number: text if number == line else None)
    return made.stack((frame,), None)[1:]


@pytest.mark.parametrize(("text", "columns", "expected"), [
    ("    x = f(a) + g(b)", (8, 12), ["x = f(a) + g(b)", "    ^^^^"]),
    ("    x = f(a) + g(b)  # why", (15, 19), ["x = f(a) + g(b)  # why", "           ^^^^"]),
    ("\tx = f(a)", (5, 9), ["x = f(a)", "    ^^^^"]),
    # the whole line
    ("    f(a)  ", (4, 8), ["f(a)"]),
    ("    f(a)  ", (0, 10), ["f(a)"]),
    ("f(a)  # why", (0, 4), ["f(a)  # why", "^^^^"]),
    # bytes, characters and columns differ
    ("x = 'ä' + f('ß')", (11, 18), ["x = 'ä' + f('ß')", "          ^^^^^^"]),
    ("x = '日本' + f('語')", (15, 23), ["x = '日本' + f('語')", "             ^^^^^^^"]),
    ("x = 'e\u0301' + f(1)", (12, 16), ["x = 'e\u0301' + f(1)", "          ^^^^"]),
    ("x = '\U0001f40d', f(1)", (12, 16), ["x = '\U0001f40d', f(1)", "          ^^^^"]),
    # escapes are longer
    ("x = '\x1b', f('\x07')", (9, 15), ["x = '\\x1b', f('\\x07')", "            ^^^^^^^^^"]),
    # the line was changed since it was compiled
    ("x = 1", (9, 15), ["x = 1"]),
    ("x = f", (4, 15), ["x = f"]),
    ("x = 1", (1 << 60, 1 << 61), ["x = 1"]),
    ("x = 1", (3, 1), ["x = 1"]),
    ("x = 1", (2, 2), ["x = 1"]),
    # in the middle of a character, from a damaged table
    ("x = 'ä'", (6, 7), ["x = 'ä'", "     ^"]),
])
def test_running_part_is_marked(text: str, columns: tuple[int, int], expected: list[str]) -> None:
    assert shown_source(text, Columns(*columns, 5)) == [" " * 9 + line for line in expected]


def test_part_of_several_lines_is_marked_in_the_first() -> None:
    assert shown_source("    x = f(  # why", Columns(8, 3, 7)) == [" " * 9 + "x = f(  # why",
                                                                    " " * 9 + "    ^^^^^^^^^"]
    assert shown_source("    f(  ", Columns(4, 3, 7)) == [" " * 9 + "f("]


def test_no_part_is_marked_without_columns() -> None:
    assert shown_source("    x = f(a)", None) == [" " * 9 + "x = f(a)"]


def test_running_part_of_a_long_line() -> None:
    text = "x = " + "a + " * 60 + "b"
    shown = [" " * 9 + text[:160] + "..."]
    assert shown_source(text, Columns(200, 201, 5)) == shown
    assert shown_source(text, Columns(156, 201, 5)) == [*shown, " " * 9 + " " * 156 + "^^^^"]
    assert shown_source("  " + "x" * (1 << 20), Columns(70_000, 70_001, 5)) == [" " * 9 + "x" * 160 + "..."]


def test_running_part_is_bold_in_colour() -> None:
    line, carets = shown_source("    x = f(a) + g(b)", Columns(8, 12, 5), colour=True)
    assert SGR.sub("", line) == " " * 9 + "x = f(a) + g(b)"
    assert carets == " " * 9 + "    ^^^^"
    assert line.count("\x1b[1m") >= 1
    first, last = line.index("\x1b[1m"), line.rindex("\x1b[22m")
    assert len(SGR.sub("", line[:first])) == 9 + 4
    assert len(SGR.sub("", line[:last])) == 9 + 8


def test_place_where_a_lock_was_taken_has_no_marked_part() -> None:
    report = gil_deadlock()
    taken = PyFrame("take", "take", "/app/job.py", 17, Columns(0, 4, 17))
    first = dataclasses.replace(report.threads[0], holds=(Hold("gil:0", EXCLUSIVE, RECORDED, None, taken),))
    text = renderer(dataclasses.replace(report, threads=(first, *report.threads[1:]))).deadlocks()
    assert "taken at /app/job.py:17 in take\n" in text
    assert "lock.acquire()" in text
    assert "^" not in text


FILE = ["import x", "", "def f(a):", "    with a:", "\tg(a, 1)", "", "    return \x1b[2J", "", "x.y()", "日本"]


def with_context(line: int, context: int, columns: Columns | None = None, colour: bool = False) -> list[str]:
    """The lines below a frame at a line of `FILE`."""
    frame = PyFrame("f", "f", "/app/job.py", line, columns)
    made = TextRenderer(healthy(), Style(colour),
                        lambda file, number: FILE[number - 1] if 0 < number <= len(FILE) else None, context)
    return made.stack((frame,), None)[1:]


def test_context_lines() -> None:
    assert with_context(5, 2, Columns(6, 7, 5)) == [
        "            3  def f(a):",
        "            4      with a:",
        "         -> 5          g(a, 1)",
        "                            ^",
        "            6",
        "            7      return \\x1b[2J",
    ]


def test_context_at_the_ends_of_a_file() -> None:
    assert with_context(1, 2) == ["         -> 1  import x", "            2", "            3  def f(a):"]
    # empty lines at either end are omitted
    assert with_context(1, 1) == ["         -> 1  import x"]
    assert with_context(10, 2) == ["             9  x.y()", "         -> 10  日本"]
    assert with_context(11, 2) == []
    assert with_context(2, 2) == []


def test_context_in_colour_is_the_same_text() -> None:
    for line in range(1, 11):
        coloured = with_context(line, 3, Columns(0, 1, line), colour=True)
        assert [SGR.sub("", text) for text in coloured] == with_context(line, 3, Columns(0, 1, line))


def test_context_of_hostile_source() -> None:
    made = TextRenderer(gil_deadlock(), Style(), lambda file, line: " " * (line * 1000) + "\x1b[2J\u202e\n", 20)
    text = made.deadlocks()
    assert not {char for char in text if char != "\n" and not char.isprintable()}
    assert max(map(len, text.splitlines())) < 400


@pytest.mark.parametrize(("native", "first", "second"), [
    ("all", True, True), ("verdict", True, False), ("none", False, False)])
def test_native_frames_of_chosen_threads_only(native: str, first: bool, second: bool) -> None:
    report = gil_deadlock()
    thread, *_ = report.threads
    only_native = dataclasses.replace(thread, number=7, stack=thread.stack[:2], holds=())
    report = dataclasses.replace(report, threads=(*report.threads, only_native))
    made = TextRenderer(report, Style(False), source, native=native)
    texts = {number: made.threads([number], True, "full").partition("Threads:\n")[2] for number in (1, 3, 7)}
    assert ("#0   pthread_rwlock_wrlock ()" in texts[1]) is ("drv::enter () inlined" in texts[1]) is first
    assert ("start_thread ()" in texts[3]) is second
    # frames keep their numbers, and a thread without Python frames has a stack
    assert "#2   update at /app/job.py:41\n" in texts[1]
    assert "#1   work at /app/job.py:17\n" in texts[3]
    assert "#0   pthread_rwlock_wrlock ()" in texts[7]
    assert ("#0   pthread_rwlock_wrlock ()" in made.deadlocks()) is first
