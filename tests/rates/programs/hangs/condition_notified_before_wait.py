"""A consumer checks its condition outside of the lock: the only notify came before the wait.

Truth: {"expect": "hang", "says": "condition|consume|available", "statuses": [1, 5], "core": true}
"""

import os
import threading

available = threading.Condition()
items = []


def produce():
    with available:
        items.append(1)
        available.notify()


def consume():
    if not items:
        thread = threading.Thread(target=produce)
        thread.start()
        thread.join()
        with available:
            available.wait()


print('{"pid": %d}' % os.getpid(), flush=True)
consume()
