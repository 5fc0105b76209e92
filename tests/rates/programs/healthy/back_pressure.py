"""A fast producer waits with a full queue for a slow consumer, which takes an item every 50 ms.

Truth: {"expect": "healthy"}
"""

import os
import queue
import threading
import time

items = queue.Queue(10)


def produce():
    while True:
        items.put(1)


def consume():
    while True:
        items.get()
        time.sleep(0.05)


threading.Thread(target=produce, name="producer").start()
threading.Thread(target=consume, name="consumer").start()
print('{"pid": %d}' % os.getpid(), flush=True)
