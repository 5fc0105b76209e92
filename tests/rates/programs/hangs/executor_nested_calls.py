"""Every worker of a ThreadPoolExecutor waits for a call that is queued behind it in the same executor.

After python/cpython#141617; the documentation of concurrent.futures warns of it.

Truth: {"expect": "hang", "says": "(pool|executor|worker).*(resize|thumbnail)|(resize|thumbnail).*(pool|executor|worker)", "statuses": [1], "core": true}
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(3)
all_busy = threading.Barrier(4)


def resize(n):
    return n


def thumbnail(n):
    all_busy.wait()
    return pool.submit(resize, n).result()


calls = [pool.submit(thumbnail, n) for n in range(3)]
all_busy.wait()
print('{"pid": %d}' % os.getpid(), flush=True)
[call.result() for call in calls]
