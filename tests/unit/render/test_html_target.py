from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from gdbext.model import Edge, Report
from gdbext.render.html import html_page
from gdbext.render.shown import Shown
from gdbext.schema.read import read_document
from gdbext.schema.write import document
from tests.support.fake_page import Page, asyncio, crash, look, page, pool, rows
from tests.support.fake_report import (
    COUNTED,
    RWLOCK,
    gil_deadlock,
    healthy,
    inferred_deadlock,
    orphaned,
    standstill,
    standstill_of_workers,
    without_verdict,
    world_that_does_not_stop,
)


def test_verdict_comes_first() -> None:
    text = page(look(gil_deadlock(), stopped=0.1234)).text()
    assert text.index("paused for 0.12 s") < text.index("DEADLOCK2 threads wait for each other; 1 more")
    assert text.index("DEADLOCK2") < text.index("Wait-for graph") < text.index("5 threads")
    for words in ('thread 1 "MainThread" waits for pthread rwlock 0x5591e0c0 in libdrv.so \u2192 thread 2 "loader"',
                  'thread 2 "loader" waits for the GIL \u2192 thread 1 "MainThread"', "behind:thread 3 \"reader\"",
                  'waits for pthread rwlock 0x5591e0c0 in libdrv.so to write, write-locked by thread 2 "loader"',
                  "holds the GIL", "pthread_rwlock_wrlock()", "Table.update /app/job.py:41",
                  "update_table() libdrv.so /src/drv.c:12", "drv::enter() inlined", "thread 5: unreadable: it runs",
                  "Note: no layout table for CPython 3.11.7", "CPython 3.11.7"):
        assert words in text, words


def test_pause_is_left_out_of_a_process_that_was_not_paused() -> None:
    made = [look(gil_deadlock(), stopped=stopped) for stopped in (0.0, 0.5)]
    assert [re.findall("paused for [0-9.]+ s", page(each).text()) for each in made] == [[], ["paused for 0.50 s"]]
    both = html_page([Shown("a", gil_deadlock(), stopped=0.0), Shown("b", gil_deadlock(), stopped=0.5)], "both")
    assert re.findall(r">([a-z ]*[0-9.]+ s)<", both) == ["0.50 s", "paused for 0.50 s"]


@pytest.mark.parametrize(("report", "words"), [
    (inferred_deadlock(), "DEADLOCK2 threads wait for each other."),
    (inferred_deadlock(), "known: inferred: 1 reader counted, none"),
    (orphaned(), "LOCK WITHOUT OWNER1 thread waits for an owner that is gone (thread exited)."),
    (orphaned(), "its owner is gone: thread exited (its owner had TID 4242)"),
    (healthy(), "COMPUTINGno deadlock found; thread 1"),
    (healthy(), "3 threads: 1 waits for a lock or event, 1 is in another system call, 1 runs."),
    (healthy(), 'The GIL is held by thread 1 "MainThread".'),
    (without_verdict(),
     "UNKNOWNwhether there is a deadlock cannot be determined (PyPy in libpypy3.9-c.so is not decoded)."),
    (world_that_does_not_stop(), "holds stop-the-world 0x104 up: it has not stopped"),
    (world_that_does_not_stop(), "has suspended its critical section of dict object at 0x300"),
    (crash(), 'SIGSEGV (SEGV_MAPERR) in thread 1 "MainThread"read 8 bytes at 0x18: a member of a null pointer'),
    (crash(), "in Data::get() at /src/drv.cc:32, called by fetch at /app/job.py:7"),
    (crash(), "what():  no data\nand more"),
    (crash(), "Without the GIL: thread 2 \"loader\" uses the interpreter (inferred: it has released the GIL)"),
    (crash(), "Suspects of a data race"), (crash(), "is in Data::fill() toono lock in common"),
    (crash(), "Missing: libdrv.so is not there"), (crash(), "1 variablethis: Data * = 0x0"),
    (crash(), "recursion: at least 40 native frames; at least 12 times Data::get()"),
])
def test_words_of_the_page(report: Report, words: str) -> None:
    text = page(look(report)).text()
    assert words in text, text


def test_standstill_and_thread_that_waits_for_itself() -> None:
    made = look(standstill())
    assert "STANDSTILLall 2 threads wait for what only the others could do; thread 2 " in page(made).text()
    assert "queue.Queue 0x20 jobs \u2192 not known" in page(made).text().replace(" of pool", "")
    report = gil_deadlock()
    deadlock = replace(report.deadlocks[0], threads=(1,), edges=(Edge(1, RWLOCK, 1),))
    assert "DEADLOCKa thread waits for itself" in page(look(replace(report, deadlocks=(deadlock,)))).text()


def test_deadlocked_threads_with_the_same_wait_are_shown_once() -> None:
    text = page(look(standstill_of_workers(100))).text()
    assert "threads 2-101 wait for queue.Queue 0x100 jobs" in text
    assert '100 threads 2-101 ("worker-2" ... "worker-101"), each:waits for queue.Queue 0x100 jobs' in text
    assert "and 99 more like these" not in text


def test_thread_that_has_not_arrived_does_not_hold_the_barrier() -> None:
    report = inferred_deadlock()
    locks = tuple(replace(lock, kind="barrier", state="1 of 2 arrived") if lock.id == COUNTED else lock
                  for lock in report.locks)
    text = page(look(replace(report, locks=locks))).text()
    assert 'waits for barrier 0x6000, 1 of 2 arrived, not arrived: thread 2 "b"' in text
    assert "has not arrived at barrier 0x6000 (inferred: 1 reader counted" in text
    assert "holds barrier" not in text


def test_few_variables_near_the_fault_are_open() -> None:
    opened = [("open" in attributes) for tag, attributes in page(look(crash())).elements
              if attributes.get("class") == "locals"]
    assert opened == [True, False]


def test_tasks() -> None:
    made = page(look(asyncio()))
    text = made.text("main")
    assert text.startswith('DEADLOCK OF TASKS2 asyncio tasks wait for each other.'
                           'Cycle of tasks that wait for each other, without a timeout: '
                           '"one" 0x10 -> 0x20 -> "one" 0x10; they continue only if one of them is cancelled.'
                           'How this is known: derived')
    assert "block good" not in {attributes.get("class") for _, attributes in made.elements}
    for words in ("3 asyncio tasks", 'Event loop 0x1 (_UnixSelectorEventLoop) runs in thread 1 "MainThread"',
                  "Event loop 0x2 (Loop) runs in no thread that asyncio records", '"one" 0x10 waits for 0x20',
                  "Job.work [coroutine] /app/job.py:5", '0x20 waits for "one" 0x10 (asyncio.gather)',
                  '"three" 0x30 waits for asyncio.Lock 0x90 table, held by "one" 0x10, with a timeout'):
        assert words in text, f"{words}\n{text}"


def test_document_without_some_members() -> None:
    whole = document(gil_deadlock())
    for left_out in ("runtimes", "threads", "locks", "deadlocks"):
        page(Shown("x", read_document({key: value for key, value in whole.items() if key != left_out})))
    least = Shown("x", read_document({key: whole[key] for key in ("schema", "target", "problems")}))
    assert "deadlock" not in page(least).text()
    assert "deadlocks were not searched for" in page(least, replace(least, target="other")).text()


# -- threads --------------------------------------------------------------------------------------------------

def test_order_of_threads() -> None:
    made = page(look(gil_deadlock()))
    states = [row["data-state"] for row in rows(made, "thread")]
    assert states == ["deadlocked", "deadlocked", "stuck", "blocked", "unread"]
    assert ["open" in row for row in rows(made, "thread")] == [True, True, False, False, False]
    filters = [attributes["data-filter"] for tag, attributes in made.elements if tag == "button"
               if "data-filter" in attributes]
    assert filters == ["deadlocked", "stuck", "blocked", "unread"]
    # hidden until the script runs
    assert "hidden" in next(attributes for _, attributes in made.elements if attributes.get("id") == "find")


def test_threads_with_the_same_stack_are_one_entry() -> None:
    made = page(look(pool(300), small=False))
    (group,) = [row for row in rows(made, "thread") if row["data-count"] != "1"]
    assert (group["data-count"], group["data-state"]) == ("300", "stuck")
    assert '300 threads 6-305 ("worker-6" ... "worker-305")' in made.text()
    assert made.text().count("Some.Class.function_3 ") == 1
    # each thread has an anchor
    assert all(made.having(id=f"t0-{number}") == ["li"] for number in range(6, 306))


@pytest.mark.parametrize(("depth", "alike"), [(30, False), (200, False), (30, True)])
@pytest.mark.slow
def test_page_of_a_thousand_threads_is_small(depth: int, alike: bool) -> None:
    made = look(pool(995, depth, alike), small=False)
    started = time.process_time()
    raw = html_page([made], "x")
    assert time.process_time() - started < 10
    assert len(raw) < 3_000_000
    found = Page(raw)
    found.check()
    assert sum(int(row["data-count"]) for row in rows(found, "thread")) == 1000
    # deadlocked threads keep their stacks; the others show how many frames are omitted
    assert "Table.update /app/job.py:41" in found.text()
    assert bool(re.search(f"{depth - 8} further frames are left out", found.text())) is not alike
