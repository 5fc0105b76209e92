"""The workers of a pool, which were started and not forked, wait for the next call; so does the process that cleans up.

Truth: {"expect": "healthy"}
"""

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor


def work(number):
    return number * number


if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 4, 9]
        print('{"pid": %d}' % os.getpid(), flush=True)
        time.sleep(600)
