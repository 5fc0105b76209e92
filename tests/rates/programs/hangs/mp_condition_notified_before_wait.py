"""A parent waits for a Condition of multiprocessing that the child, now finished, has notified before.

Truth: {"expect": "hang", "says": "condition.*ready", "statuses": [1, 5]}
"""

import multiprocessing
import os
import time


def child(condition):
    with condition:
        condition.notify_all()


if __name__ == "__main__":
    ready = multiprocessing.Condition()
    process = multiprocessing.Process(target=child, args=(ready,))
    process.start()
    process.join()
    print('{"pid": %d}' % os.getpid(), flush=True)
    with ready:
        ready.wait()
