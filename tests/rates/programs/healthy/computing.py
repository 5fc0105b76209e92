"""A long computation in MainThread, and threads that wait for its results.

Truth: {"expect": "healthy"}
"""

import os
import queue
import threading

results = queue.Queue()


def store():
    while True:
        results.get()


threading.Thread(target=store, name="store", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    results.put(sum(n * n for n in range(10**6)))
