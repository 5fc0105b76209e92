"""A thread computes under a lock for seconds, and others wait for it.

Truth: {"expect": "healthy"}
"""

import os
import threading

index_lock = threading.Lock()


def build():
    while True:
        with index_lock:
            sum(n * n for n in range(3 * 10**7))


def look_up():
    while True:
        with index_lock:
            pass


threading.Thread(target=build, name="build").start()
for n in range(2):
    threading.Thread(target=look_up, name=f"look-up-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
