"""Six threads need one lock all the time, and each holds it for a moment.

Truth: {"expect": "healthy"}
"""

import os
import threading

lock = threading.Lock()
counter = 0


def count():
    global counter
    while True:
        with lock:
            counter += 1


for n in range(6):
    threading.Thread(target=count, name=f"count-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
