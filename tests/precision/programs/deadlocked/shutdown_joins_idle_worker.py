"""python/cpython#117531: a thread in `Queue.get` is not woken at the end, and the interpreter waits for it.

The main thread is done and waits, in `threading._shutdown`, for a thread that is not a daemon. That one waits for a
job, and no thread is left to provide one.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["main", "thread-exit|py-lock|py-event|semaphore", "worker"],
                  ["worker", "py-condition|py-lock|semaphore", null]]}
"""

import queue

from tests.precision.programs import scene

jobs: "queue.Queue[int]" = queue.Queue()


def work() -> None:
    while True:
        jobs.get()


if __name__ == "__main__":
    scene.thread("worker", work, daemon=False)
    scene.ready()
