"""Two processes with a pipe each way: each reads first, and so neither writes.

Truth: {"expect": "hang", "says": "pipe|socket|each other|child", "statuses": [1]}
"""

import multiprocessing
import os


def agent(connection):
    question = connection.recv()
    connection.send(question)


if __name__ == "__main__":
    here, there = multiprocessing.Pipe()
    child = multiprocessing.Process(target=agent, args=(there,), name="agent")
    child.start()
    there.close()
    print('{"pid": %d}' % os.getpid(), flush=True)
    here.recv()
