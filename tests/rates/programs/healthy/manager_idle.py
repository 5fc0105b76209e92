"""A multiprocessing.Manager with a dictionary that its processes write every second.

Truth: {"expect": "healthy"}
"""

import multiprocessing
import os
import time


def update(shared):
    while True:
        shared["time"] = time.time()
        time.sleep(1)


if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        shared = manager.dict()
        multiprocessing.Process(target=update, args=(shared,), daemon=True).start()
        print('{"pid": %d}' % os.getpid(), flush=True)
        while True:
            time.sleep(1)
            shared["seen"] = shared.get("time")
