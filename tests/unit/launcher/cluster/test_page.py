"""How what happened in the processes of a Dask cluster is told."""

from __future__ import annotations

from dataclasses import replace

from gdbext.launcher.cluster.page import Process, Survey, headline, merged, page
from gdbext.model import Deadlock, Edge, Lock, NativeFrame, Report, Thread, ThreadStatus
from gdbext.schema.write import document
from tests.support.fake_report import INFO


def thread(number: int, status: ThreadStatus = "blocked", function: str = "read") -> Thread:
    return Thread(number, number, None, f"t{number}", status=status, stack=(NativeFrame(function, "libc.so.6", 1),))


def test_headlines() -> None:
    def deadlock(*locks: str) -> Deadlock:
        return Deadlock((), "inferred", tuple(Edge(at, lock, at + 1) for at, lock in enumerate(locks)))

    report = Report(INFO, locks=(Lock("mutex:0x1", "mutex", 1, "table in job", "locked"),))
    assert headline(replace(report, deadlocks=(deadlock("mutex:0x1", "gil:0"),))) == (
        "deadlock between the GIL and mutex table in job (inferred)")
    assert headline(replace(report, deadlocks=(deadlock("mutex:0x1"),) * 3)) == (
        "deadlock over mutex table in job (inferred) and 2 more deadlocks")
    assert headline(Report(INFO, threads=(thread(1), thread(2)))) == "only waits: no deadlock, all 2 threads wait"
    # an event loop that has looked up
    assert headline(Report(INFO, threads=(thread(1, "running", "epoll_wait"),))) == (
        "only waits: no deadlock, its thread waits")
    assert headline(Report(INFO, threads=(thread(1, "running", "work"), thread(2)))) == (
        "no deadlock, 1 of 2 threads runs")


def test_a_machine_on_which_nothing_could_be_seen_was_not_looked_at() -> None:
    seen = document(Report(INFO, threads=(thread(1),)))
    found = Survey("tcp://192.0.2.1:8786", [
        Process(("worker",), "tcp://192.0.2.2:1", host="beta", pid=20, document=seen, status=0),
        Process(("worker",), "tcp://192.0.2.3:1", host="gamma", pid=20, problem="there is no gdb on $PATH")])
    text = page(found, merged(found))
    assert text.splitlines()[0] == "Dask cluster tcp://192.0.2.1:8786: 2 workers; looked at on 1 machine"
    assert text.splitlines()[-1] == "  worker tcp://192.0.2.3:1 (PID 20 on gamma): there is no gdb on $PATH"
