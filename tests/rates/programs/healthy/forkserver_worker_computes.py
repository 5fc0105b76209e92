"""A worker, which a server process has forked, computes, and the main thread waits for its result.

Truth: {"expect": "healthy"}
"""

import multiprocessing
import os


def work(seed, ready):
    ready.set()
    while True:
        seed = (seed * 1103515245 + 12345) % 2**31


if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    with context.Pool(1) as pool:
        ready = context.Manager().Event()
        result = pool.apply_async(work, (1, ready))
        ready.wait()
        print('{"pid": %d}' % os.getpid(), flush=True)
        result.get()
