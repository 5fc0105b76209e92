"""How what happened in the processes of a Dask cluster is told."""

from __future__ import annotations

from typing import Any

from gdbext.launcher.cluster_page import headline


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
