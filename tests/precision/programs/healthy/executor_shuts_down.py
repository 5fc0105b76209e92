"""bpo-36402: the program ends and waits for executors that are still working.

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
