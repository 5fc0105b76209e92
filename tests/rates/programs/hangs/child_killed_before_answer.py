"""A worker was killed by the kernel; its parent waits for an answer and holds the write end of the pipe itself.

Truth: {"expect": "hang", "says": "pipe|zombie|ended|killed", "statuses": [1]}
"""

import multiprocessing
import os
import signal


def worker(connection):
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    here, there = multiprocessing.Pipe()
    multiprocessing.Process(target=worker, args=(there,), name="worker").start()
    print('{"pid": %d}' % os.getpid(), flush=True)
    here.recv()
