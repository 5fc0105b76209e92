"""How what happened in the processes of a Dask cluster is told."""

from __future__ import annotations

from typing import Any

from gdbext.launcher.cluster.page import Process, Survey, headline, merged, page


def thread(number: int, status: str = "blocked", function: str = "read") -> dict[str, Any]:
    return {"number": number, "python_name": None, "name": f"t{number}", "status": status, "syscall": None,
            "stack": [{"language": "native", "function": function, "module": "libc.so.6", "file": None, "line": None}]}


def test_headlines() -> None:
    def deadlock(*locks: str) -> dict[str, Any]:
        edges = [{"waiter": at, "lock": lock, "holder": at + 1} for at, lock in enumerate(locks)]
        return {"threads": [], "evidence": "inferred", "edges": edges, "why": None, "stuck_behind": []}

    locks = [{"id": "mutex:0x1", "kind": "mutex", "name": "table in job"}]
    assert headline({"threads": [], "locks": locks, "deadlocks": [deadlock("mutex:0x1", "gil:0")]}) == (
        "deadlock between the GIL and mutex table in job (inferred)")
    assert headline({"threads": [], "locks": locks, "deadlocks": [deadlock("mutex:0x1")] * 3}) == (
        "deadlock over mutex table in job (inferred) and 2 more deadlocks")
    assert headline({"threads": [thread(1), thread(2)], "deadlocks": []}) == (
        "only waits: no deadlock, all 2 threads wait")
    # an event loop that has looked up
    assert headline({"threads": [thread(1, "running", "epoll_wait")], "deadlocks": []}) == (
        "only waits: no deadlock, its thread waits")
    assert headline({"threads": [thread(1, "running", "work"), thread(2)], "deadlocks": []}) == (
        "no deadlock, 1 of 2 threads runs")


def test_a_machine_on_which_nothing_could_be_seen_was_not_looked_at() -> None:
    seen = {"threads": [thread(1)], "deadlocks": [], "locks": []}
    found = Survey("tcp://192.0.2.1:8786", [
        Process(("worker",), "tcp://192.0.2.2:1", host="beta", pid=20, document=seen, status=0),
        Process(("worker",), "tcp://192.0.2.3:1", host="gamma", pid=20, problem="there is no gdb on $PATH")])
    text = page(found, merged(found))
    assert text.splitlines()[0] == "Dask cluster tcp://192.0.2.1:8786: 2 workers; looked at on 1 machine"
    assert text.splitlines()[-1] == "  worker tcp://192.0.2.3:1 (PID 20 on gamma): there is no gdb on $PATH"
