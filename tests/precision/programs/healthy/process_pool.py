"""bpo-27422: threads and processes together: a `ProcessPoolExecutor`, its helper threads, and queues in between.

Truth: {"expect": "healthy"}
"""

import concurrent.futures
import multiprocessing

from tests.precision.programs import scene

if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        pool.submit(abs, -1).result()
        scene.ready()
        while not scene.stopping.is_set():
            list(pool.map(abs, range(50), chunksize=5))
