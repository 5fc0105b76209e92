"""Two processes take two locks in opposite orders; a server process has forked one of them, as by default since 3.14.

Truth: {"expect": "hang", "says": "DEADLOCK", "statuses": [1]}
"""

import multiprocessing
import os


def transfer(first, second, both):
    with first:
        both.wait()
        with second:
            pass


if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver")
    left, right = multiprocessing.Lock(), multiprocessing.Lock()
    both = multiprocessing.Barrier(2)
    multiprocessing.Process(target=transfer, args=(right, left, both), name="transfer").start()
    print('{"pid": %d}' % os.getpid(), flush=True)
    transfer(left, right, both)
