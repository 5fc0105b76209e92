"""A process was killed with a multiprocessing.Lock held, which nobody can release any more.

Truth: {"expect": "hang", "says": "lock|semaphore", "statuses": [1, 5]}
"""

import multiprocessing
import os
import signal


def update(lock):
    with lock:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    lock = multiprocessing.Lock()
    child = multiprocessing.Process(target=update, args=(lock,))
    child.start()
    child.join()
    print('{"pid": %d}' % os.getpid(), flush=True)
    with lock:
        pass
