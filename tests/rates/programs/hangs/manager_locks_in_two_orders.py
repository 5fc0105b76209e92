"""Two processes take two locks of a multiprocessing.Manager in opposite orders.

Truth: {"expect": "hang", "says": "manager|server|socket|lock|child", "statuses": [1, 5]}
"""

import multiprocessing
import os


def transfer(first, second, both):
    with first:
        both.wait()
        with second:
            pass


if __name__ == "__main__":
    manager = multiprocessing.Manager()
    left, right, both = manager.Lock(), manager.Lock(), manager.Barrier(2)
    multiprocessing.Process(target=transfer, args=(right, left, both), name="transfer").start()
    print('{"pid": %d}' % os.getpid(), flush=True)
    transfer(left, right, both)
