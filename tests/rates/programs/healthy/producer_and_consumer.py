"""A producer and two consumers with a bounded queue, with traffic all the time.

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
        time.sleep(0.002)


def consume():
    while True:
        items.get()
        items.task_done()


threading.Thread(target=produce, name="producer").start()
for n in range(2):
    threading.Thread(target=consume, name=f"consumer-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
