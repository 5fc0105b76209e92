"""Workers share a lock which each holds for a nap of 20 ms, as for a write to a device.

Truth: {"expect": "healthy"}
"""

import os
import threading
import time

device = threading.Lock()


def write():
    while True:
        with device:
            time.sleep(0.02)


for n in range(4):
    threading.Thread(target=write, name=f"writer-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
