"""A child brings results by a multiprocessing.Queue, one every 100 ms.

Truth: {"expect": "healthy"}
"""

import multiprocessing
import os
import time


def measure(results):
    while True:
        time.sleep(0.1)
        results.put(time.time())


if __name__ == "__main__":
    results = multiprocessing.Queue()
    multiprocessing.Process(target=measure, args=(results,), daemon=True).start()
    print('{"pid": %d}' % os.getpid(), flush=True)
    while True:
        results.get()
