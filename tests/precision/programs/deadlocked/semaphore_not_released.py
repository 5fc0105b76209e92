"""nipy/nipype#1689: a semaphore is acquired more often than released, until all threads wait for it.

Each job takes a permit and fails before it returns it. Later threads wait for permits that no thread holds any
more.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["job-3", "py-semaphore|py-condition|py-lock|semaphore", null],
                  ["job-4", "py-semaphore|py-condition|py-lock|semaphore", null],
                  ["main", "thread-exit|py-lock|py-event|semaphore", "job-3"]]}
"""

import threading

from tests.precision.programs import scene

permits = threading.Semaphore(2)


def job() -> None:
    permits.acquire()
    raise ValueError("before the release")


if __name__ == "__main__":
    threading.excepthook = lambda args: None
    for role in ("job-1", "job-2"):
        scene.thread(role, job).join()
        scene.forget(role)
    threads = [scene.thread(role, job) for role in ("job-3", "job-4")]
    scene.ready()
    for thread in threads:
        thread.join()
