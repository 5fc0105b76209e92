"""bpo-6721: a server with threads forks a worker, which starts threads of its own and calls what the parent had locked.

One of the parent's threads was inside of the cache's lock, an RLock. In the child that thread is gone, and the lock is
not: the first request waits forever, and so do those behind it.

The C library gives the memory of that thread to the next one, so that the lock names a thread which never had it.

Truth: {"expect": "deadlock", "silent": ["live", "core"],
        "edges": [["request", "py-rlock|semaphore", null]],
        "behind": ["main"]}
"""

import os
import threading
import time

from tests.precision.programs import scene

cache = threading.RLock()
inside = threading.Event()


def refresh() -> None:
    with cache:
        inside.set()
        scene.stopping.wait()


def request() -> None:
    with cache:
        print("never printed")


def heartbeat() -> None:
    while True:
        time.sleep(0.01)


if __name__ == "__main__":
    scene.thread("refresher", refresh)
    inside.wait()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        threading.Thread(target=heartbeat, daemon=True).start()
        worker = scene.thread("request", request)
        scene.ready()
        worker.join()
