"""A worker of multiprocessing.Pool ends with os._exit() in an item; the item is lost and map() waits.

After python/cpython#96062, where a worker is killed.

Truth: {"expect": "hang", "says": "pool", "statuses": [1]}
"""

import multiprocessing
import os
import time


def work(n):
    if n == 1:
        os._exit(1)
    return n


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        result = pool.map_async(work, range(4), chunksize=1)
        time.sleep(0.3)
        print('{"pid": %d}' % os.getpid(), flush=True)
        result.get()
