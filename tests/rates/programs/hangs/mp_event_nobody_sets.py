"""Two processes wait for a multiprocessing.Event; the one that would set it has ended with an error.

Truth: {"expect": "hang", "says": "event|ready|child|worker", "statuses": [1, 5]}
"""

import multiprocessing
import os
import sys


def master(ready):
    sys.exit("no port")


def worker(ready):
    ready.wait()


if __name__ == "__main__":
    ready = multiprocessing.Event()
    processes = [multiprocessing.Process(target=target, args=(ready,), name=target.__name__)
                 for target in (master, worker)]
    [process.start() for process in processes]
    processes[0].join()
    print('{"pid": %d}' % os.getpid(), flush=True)
    processes[1].join()
