"""MainThread waits for the results of several calls with a lock held that each of the calls needs.

Truth: {"expect": "hang", "says": "DEADLOCK.*MainThread", "statuses": [1], "core": true}
"""

import concurrent.futures
import os
import threading
import time

lock = threading.Lock()


def update(number):
    with lock:
        return number


with concurrent.futures.ThreadPoolExecutor(3) as pool, lock:
    calls = [pool.submit(update, number) for number in range(3)]
    time.sleep(0.1)
    print('{"pid": %d}' % os.getpid(), flush=True)
    concurrent.futures.wait(calls)
