"""The lines about processes of a Dask cluster."""

from __future__ import annotations

from gdbext.narrate import cluster


def test_title_has_what_is_known_of_a_process() -> None:
    assert cluster.process_title((), None, 5, None) == "connected process (PID 5)"
    assert cluster.process_title(("scheduler", "worker", "client"), "tcp://x:1", None, "beta") == (
        "scheduler, worker and client tcp://x:1 (on beta)")


def test_summary_counts_roles() -> None:
    roles = [("scheduler", "client"), ("worker",), ("worker",), (), ()]
    assert cluster.summary("tcp://x:1", roles, 2) == (
        "Dask cluster tcp://x:1: 1 scheduler, 1 client, 2 workers, 2 connected processes; examined on 2 machines")


def test_process_line_leaves_out_what_is_not_known() -> None:
    assert cluster.process_line("worker", 9.0, (), 0, None) == "worker"
    assert cluster.process_line("worker", 11.0, ("a", "b", "c", "d", "e"), 1, 0.5) == (
        "worker, silent for 11 s, has 5 tasks to run: a, b, c, d, ..., waits for 1 future, was paused for 0.50 s")
