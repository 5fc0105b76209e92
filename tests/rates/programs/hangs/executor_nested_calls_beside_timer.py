"""Every worker of a ThreadPoolExecutor waits for a call that is queued behind it, while a metrics thread runs.

Truth: {"expect": "hang", "says": "(pool|executor|worker)", "statuses": [1], "core": true}
"""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(4)
all_busy = threading.Barrier(5)


def metrics():
    while True:
        time.sleep(0.2)


def query(n):
    return n


def page(n):
    all_busy.wait()
    return sum(pool.map(query, range(3)))


threading.Thread(target=metrics, name="metrics", daemon=True).start()
calls = [pool.submit(page, n) for n in range(4)]
all_busy.wait()
print('{"pid": %d}' % os.getpid(), flush=True)
[call.result() for call in calls]
