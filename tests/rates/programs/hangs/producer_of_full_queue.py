"""A consumer ended with an error; the producers wait to put into the full queue. A ticker still runs.

Truth: {"expect": "hang", "says": "queue|put|full", "statuses": [1, 5], "core": true}
"""

import os
import queue
import threading
import time

lines = queue.Queue(5)


def produce():
    while True:
        lines.put("line")


def consume():
    lines.get()
    raise SystemExit


def ticker():
    while True:
        time.sleep(0.1)


threading.Thread(target=ticker, name="ticker", daemon=True).start()
threading.Thread(target=consume, name="consumer").start()
for n in range(2):
    threading.Thread(target=produce, name=f"producer-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
