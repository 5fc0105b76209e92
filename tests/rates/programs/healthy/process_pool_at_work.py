"""ProcessPoolExecutor with long computations; MainThread waits for a result.

Truth: {"expect": "healthy"}
"""

import os
from concurrent.futures import ProcessPoolExecutor


def work(n):
    while True:
        sum(range(10**6))


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        print('{"pid": %d}' % os.getpid(), flush=True)
        pool.submit(work, 1).result()
