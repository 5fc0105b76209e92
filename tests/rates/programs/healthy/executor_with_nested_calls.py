"""Calls of a ThreadPoolExecutor wait for calls of the same executor, which has enough workers for them.

Truth: {"expect": "healthy"}
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(8)


def query(n):
    time.sleep(0.03)
    return n


def page(n):
    return pool.submit(query, n).result()


print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    list(pool.map(page, range(4)))
