"""The page of a Dask cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.launcher.cluster.page import Process, Survey, as_document, headline, merged, page, shown_targets, status
from gdbext.model import Deadlock, Edge, Lock, NativeFrame, Report, Thread, ThreadStatus
from gdbext.schema.write import document
from tests.support.fake_report import INFO


def thread(number: int, status: ThreadStatus = "blocked", function: str = "read") -> Thread:
    return Thread(number, number, None, f"t{number}", status=status, stack=(NativeFrame(function, "libc.so.6", 1),))


def test_headline_names_locks_or_counts_waiting_threads() -> None:
    def deadlock(*locks: str) -> Deadlock:
        return Deadlock((), "inferred", tuple(Edge(at, lock, at + 1) for at, lock in enumerate(locks)))

    report = Report(INFO, locks=(Lock("mutex:0x1", "mutex", 1, "table in job", "locked"),))
    assert headline(replace(report, deadlocks=(deadlock("mutex:0x1", "gil:0"),))) == (
        "deadlock between the GIL and pthread mutex table in job (inferred)")
    assert headline(replace(report, deadlocks=(deadlock("mutex:0x1"),) * 3)) == (
        "deadlock over pthread mutex table in job (inferred) and 2 more deadlocks")
    assert headline(Report(INFO, threads=(thread(1), thread(2)))) == "only waits: no deadlock, all 2 threads wait"
    # an event loop between two waits
    assert headline(Report(INFO, threads=(thread(1, "running", "epoll_wait"),))) == (
        "only waits: no deadlock, its thread waits")
    assert headline(Report(INFO, threads=(thread(1, "running", "work"), thread(2)))) == (
        "no deadlock, 1 of 2 threads runs")


def test_summary_counts_only_machines_with_a_report() -> None:
    seen = Process(("worker",), "tcp://192.0.2.2:1", host="beta", pid=20)
    seen.take({"document": document(Report(INFO, threads=(thread(1),))), "status": 0})
    found = Survey("tcp://192.0.2.1:8786", [
        seen, Process(("worker",), "tcp://192.0.2.3:1", host="gamma", pid=20, problem="there is no gdb on $PATH")])
    text = page(found, merged(found))
    assert text.splitlines()[0] == "Dask cluster tcp://192.0.2.1:8786: 2 workers; examined on 1 machine"
    assert text.splitlines()[-1] == "  worker tcp://192.0.2.3:1 (PID 20 on gamma): there is no gdb on $PATH"


@pytest.mark.parametrize(("bad", "path"), [
    ({"schema": "gdbext/2"}, "$.schema"), ({"schema": "gdbext/1"}, "$"), (["not an object"], "$"), ("text", "$")])
def test_document_that_cannot_be_read_costs_one_line(bad: object, path: str) -> None:
    processes = [Process(("worker",), f"tcp://192.0.2.2:{port}", host="beta", pid=port) for port in (1, 2)]
    processes[0].take({"document": document(Report(INFO, threads=(thread(1),))), "status": 0})
    processes[1].take({"document": bad, "text": "No deadlock found.", "status": 0})
    found = Survey("tcp://192.0.2.1:8786", processes)
    lines = page(found, merged(found)).splitlines()
    assert "1 worker: only waits: no deadlock, its thread waits" in lines
    assert lines[-2] == "Not read:"
    start = f"  worker tcp://192.0.2.2:2 (PID 2 on beta): its report cannot be read: {path}"
    assert lines[-1].startswith(start)
    assert lines[-1].endswith("; install the same version of gdbext there")
    assert status(found) == 3
    made = as_document(found, merged(found))
    assert [each["verdict"] is None for each in made["processes"]] == [False, True]
    assert shown_targets(found, merged(found))[-1].report is None
