"""dbt-labs/dbt-core#5602: `Queue.join` never returns, because a job failed before its `task_done`.

The exception of a job ends the loop body before `task_done`; the workers wait for more jobs, the main thread
for the job that is never marked done.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["main", "py-condition|py-lock|semaphore", null],
                  ["worker-1", "py-condition|py-lock|semaphore", null],
                  ["worker-2", "py-condition|py-lock|semaphore", null]]}
"""

import queue

from tests.precision.programs import scene

jobs: "queue.Queue[int]" = queue.Queue()


def work() -> None:
    while True:
        job = jobs.get()
        try:
            100 // job
        except ZeroDivisionError:
            continue
        jobs.task_done()


if __name__ == "__main__":
    for job in (5, 0, 7):
        jobs.put(job)
    scene.thread("worker-1", work)
    scene.thread("worker-2", work)
    scene.ready()
    jobs.join()
