"""bpo-36402: the program is at its end and waits for executors in which work is still going on.

Truth: {"expect": "healthy"}
"""

import concurrent.futures
import threading

from tests.precision.programs import scene

lock = threading.Lock()


def work() -> None:
    while not scene.stopping.is_set():
        with lock:
            sum(range(3000))


if __name__ == "__main__":
    pool = concurrent.futures.ThreadPoolExecutor(5)
    for _ in range(3):
        pool.submit(work)
    scene.ready()
    pool.shutdown()
