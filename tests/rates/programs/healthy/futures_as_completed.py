"""MainThread takes results in the order in which they are made; a worker computes, and others wait for its lock.

Truth: {"expect": "healthy"}
"""

import concurrent.futures
import os
import threading

lock = threading.Lock()


def work(number):
    while True:
        with lock:
            sum(range(200_000))


with concurrent.futures.ThreadPoolExecutor(3) as pool:
    calls = [pool.submit(work, number) for number in range(3)]
    print('{"pid": %d}' % os.getpid(), flush=True)
    for call in concurrent.futures.as_completed(calls):
        call.result()
