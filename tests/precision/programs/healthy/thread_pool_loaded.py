"""bpo-24882: a `ThreadPoolExecutor` under load: short jobs, waits for results, a shared lock.

Truth: {"expect": "healthy", "pythons": ["3.9", "3.11", "3.12", "3.13", "debian"]}
"""

import concurrent.futures
import threading

from tests.precision.programs import scene

lock = threading.Lock()
done = 0


def job(number: int) -> int:
    global done
    with lock:
        done += 1
    return sum(range(number % 300))


if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        scene.ready()
        while not scene.stopping.is_set():
            list(pool.map(job, range(100)))
