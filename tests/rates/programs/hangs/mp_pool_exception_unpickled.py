"""The result of an item is an exception that cannot be unpickled; the pool's result thread ends, and map() waits.

After python/cpython#103061.

Truth: {"expect": "hang", "says": "pool", "statuses": [1]}
"""

import multiprocessing
import os
import time


class Failed(Exception):
    def __init__(self, what):
        super().__init__(what.text)


class What:
    text = "no data"


def work(n):
    raise Failed(What())


if __name__ == "__main__":
    pool = multiprocessing.Pool(2)
    result = pool.map_async(work, [1])
    time.sleep(0.3)
    print('{"pid": %d}' % os.getpid(), flush=True)
    result.get()
