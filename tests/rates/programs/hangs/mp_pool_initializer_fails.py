"""The initialiser of multiprocessing.Pool raises; the pool starts new workers for good, and no item is done.

After python/cpython#87472, in which the initialiser fails.

Truth: {"expect": "hang", "says": "pool", "statuses": [1, 5]}
"""

import multiprocessing
import os


def connect():
    raise SystemExit(1)


if __name__ == "__main__":
    pool = multiprocessing.get_context("fork").Pool(1, connect)
    while True:
        try:
            result = pool.map_async(abs, range(3))
        except ZeroDivisionError:
            continue  # at this moment the pool had no worker
        break
    print('{"pid": %d}' % os.getpid(), flush=True)
    result.get()
