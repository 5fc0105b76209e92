"""The answers that are wrong today, by test: the outcome, and what is said. A test fails when its answer gets right."""

from __future__ import annotations

#: Before the outcome of a program about which some reports are right, or reach no verdict.
SOMETIMES = "sometimes "


def outcome(test: str) -> str | None:
    """The outcome of a test in the table; None if its answer is right."""
    said = NOT_YET.get(test)
    return None if said is None else said.partition(":")[0].removeprefix(SOMETIMES)


NOT_YET: dict[str, str] = {
    "celery_worker_idle-live":
        "sometimes weak false alarm: POLLING: thread 1 \"MainThread\" sleeps again and again, until the "
        "condition of a loop holds, in synloop loops.py:209., status 5",
    "event_nobody_sets-core":
        "false comfort: NOTHING WRONG FOUND: no deadlock found; all 2 threads wait for work, for input, or for "
        "time to pass., status 0",
    "event_nobody_sets-live":
        "false comfort: NOTHING WRONG FOUND: no deadlock found; all 2 threads wait for work, for input, or for "
        "time to pass., status 0",
    "grpc_handler_waits_for_own_server-live": "sometimes false comfort: NOTHING WRONG FOUND, status 0",
    "gunicorn_worker_waits_for_backend-live":
        "sometimes false comfort: NOTHING WRONG FOUND: no deadlock found; all 2 threads wait for work, for input, "
        "or for time to pass., status 0",
    "http_server_with_clients-live":
        "sometimes unknown: UNKNOWN: whether there is a deadlock cannot be determined (3 of 4 threads cannot "
        "be read)., status 3",
    "native_pool_waits_for_itself-core":
        "unknown: UNKNOWN: thread 1 waits for futex word in native_pool_waits_for_itself, waited for (a "
        "std::future that a ..., status 3",
    "pool_at_work-live":
        "sometimes weak false alarm: WAITS FOR CHILD PROCESSES: thread 1 \"MainThread\" waits for result , result is "
        "pending (a condition has no owner: any thread may notify it)., status 5",
    "sqlite_busy-core":
        "vague: BLOCKED: thread 2 \"importer\" waits for threading.Event , not set (an event has no owner: any "
        "thread may set ..., status 5",
    "trio_blocked_by_thread-live":
        "sometimes vague: BLOCKED: 1 thread waits behind thread 2 \"reader\", which waits for queue.Queue "
        "message_to_trio.queue, queue is ..., status 5",
}
