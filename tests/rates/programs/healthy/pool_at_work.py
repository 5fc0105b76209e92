"""multiprocessing.Pool with long computations; MainThread waits for the result.

Truth: {"expect": "healthy"}
"""

import multiprocessing
import os


def work(n):
    return sum(range(2 * 10**6))


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print('{"pid": %d}' % os.getpid(), flush=True)
        for _ in pool.imap_unordered(work, range(10**6)):
            pass
