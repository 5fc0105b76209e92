"""Quansight-Labs/free-threaded-compatibility#133: tests wait at a barrier for a thread that has failed.

One of three threads raises before it comes to the barrier, the other two wait there forever, and the main thread
joins them.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["party-1", "py-condition|py-lock|semaphore|barrier", null],
                  ["party-2", "py-condition|py-lock|semaphore|barrier", null],
                  ["main", "thread-exit|py-lock|py-event|semaphore", "party-1"]]}
"""

import threading

from tests.precision.programs import scene

barrier = threading.Barrier(3)


def closure(number: int) -> None:
    if number == 3:
        raise ValueError("before the barrier")
    barrier.wait()


if __name__ == "__main__":
    threading.excepthook = lambda args: None
    threads = [scene.thread(f"party-{number}", closure, number) for number in (1, 2, 3)]
    threads[2].join()
    scene.forget("party-3")
    scene.ready()
    for thread in threads:
        thread.join()
