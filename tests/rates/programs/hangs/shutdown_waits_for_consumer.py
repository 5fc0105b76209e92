"""The program is at its end, and threading._shutdown() joins a consumer that waits for the next item for good.

Truth: {"expect": "hang", "says": "consumer", "statuses": [1], "core": true}
"""

import os
import queue
import threading

items = queue.Queue()


def consume():
    while items.get() is not None:
        pass


threading.Thread(target=consume, name="consumer").start()
items.put(1)
print('{"pid": %d}' % os.getpid(), flush=True)
