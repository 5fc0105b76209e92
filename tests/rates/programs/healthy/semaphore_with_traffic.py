"""Six threads share two permits of a semaphore and hold them for 20 ms.

Truth: {"expect": "healthy"}
"""

import os
import threading
import time

permits = threading.BoundedSemaphore(2)


def fetch():
    while True:
        with permits:
            time.sleep(0.02)


for n in range(6):
    threading.Thread(target=fetch, name=f"fetch-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
