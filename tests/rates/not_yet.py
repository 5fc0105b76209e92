"""The answers that are wrong today, by test: the outcome, and what is wrong. The tests fail when one becomes right."""

from __future__ import annotations

NOT_YET: dict[str, str] = {
    "asyncio_run_waits_for_executor-debian-core": "false comfort: NOTHING WRONG FOUND, status 0",
    "event_nobody_sets-debian-core": "false comfort: NOTHING WRONG FOUND, status 0",
    "event_nobody_sets-debian-live": "false comfort: NOTHING WRONG FOUND, status 0",
    "executor_nested_calls-debian-core":
        "vague: POOL EXHAUSTED: all 3 workers of the pool wait for results, and no worker is left to make "
        "them., status 1",
    "executor_nested_calls-debian-live":
        "vague: POOL EXHAUSTED: all 3 workers of the pool wait for results, and no worker is left to make "
        "them., status 1",
    "executor_nested_calls_beside_timer-debian-core":
        "vague: POOL EXHAUSTED: all 4 workers of the pool wait for results, and no worker is left to make "
        "them., status 5",
    "executor_nested_calls_beside_timer-debian-live":
        "vague: POOL EXHAUSTED: all 4 workers of the pool wait for results, and no worker is left to make "
        "them., status 5",
    "lock_holder_polls-debian-live": "false comfort: NOTHING WRONG FOUND, status 0",
    "pool_worker_died-debian-live":
        "vague: WAITS FOR CHILD PROCESSES: thread 1 \"MainThread\" waits for result result of pool_worker_died, "
        "result is pending (an ..., status 5",
    "semaphore_permits_lost-debian-core": "false comfort: NOTHING WRONG FOUND, status 0",
    "semaphore_permits_lost-debian-live": "false comfort: NOTHING WRONG FOUND, status 0",
    "slow_child_computes-debian-live":
        "weak false alarm: WAITS FOR CHILD PROCESSES: thread 1 \"MainThread\" waits for child process N "
        "\"python3.11\"., status 5",
}
