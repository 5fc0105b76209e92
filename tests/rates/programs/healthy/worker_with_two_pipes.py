"""A child waits for the next request on its pipe; the parent sends one from time to time.

Truth: {"expect": "healthy"}
"""

import multiprocessing
import os
import time


def serve(connection):
    while True:
        connection.send(connection.recv())


if __name__ == "__main__":
    here, there = multiprocessing.Pipe()
    multiprocessing.Process(target=serve, args=(there,), daemon=True).start()
    print('{"pid": %d}' % os.getpid(), flush=True)
    while True:
        here.send(1)
        here.recv()
        time.sleep(2)
