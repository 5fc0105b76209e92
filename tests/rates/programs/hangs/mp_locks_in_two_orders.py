"""Two processes take two multiprocessing.Lock in opposite orders.

Truth: {"expect": "hang", "says": "lock|semaphore", "statuses": [1]}
"""

import multiprocessing
import os


def transfer(first, second, both):
    with first:
        both.wait()
        with second:
            pass


if __name__ == "__main__":
    left, right = multiprocessing.Lock(), multiprocessing.Lock()
    both = multiprocessing.Barrier(2)
    multiprocessing.Process(target=transfer, args=(right, left, both), name="transfer").start()
    print('{"pid": %d}' % os.getpid(), flush=True)
    transfer(left, right, both)
