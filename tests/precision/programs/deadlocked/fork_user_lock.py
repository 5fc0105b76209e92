"""python/cpython#82756 (bpo-38575): the child of fork waits for a lock that another thread of the parent had.

Only the thread that forks exists in the child, and the locks keep their state: the holder of this one no longer
exists.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["main", "py-lock|semaphore", null]]}
"""

import os
import threading

from tests.precision.programs import scene

lock = threading.Lock()
held = threading.Event()


def work() -> None:
    with lock:
        held.set()
        scene.stopping.wait()


if __name__ == "__main__":
    scene.thread("worker", work)
    held.wait()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        scene.ready()
        with lock:
            print("never printed")
