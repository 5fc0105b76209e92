"""Three threads compute in phases that end with a barrier, one of them slower than the others.

Truth: {"expect": "healthy"}
"""

import os
import threading

phase = threading.Barrier(3)


def compute(size):
    while True:
        sum(range(size))
        phase.wait()


for size in (1000, 10000, 10**7):
    threading.Thread(target=compute, args=(size,), name=f"size-{size}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
