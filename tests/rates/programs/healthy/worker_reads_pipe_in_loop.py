"""A process of its own design takes messages from a pipe, one after another; its parent has nothing to send now.

Truth: {"expect": "healthy"}
"""

import multiprocessing
import time


def work(messages):
    while True:
        message = messages.recv()
        if message is None:
            break


if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.Process(target=work, args=(theirs,))
    worker.start()
    theirs.close()
    ours.send("first")
    time.sleep(0.2)
    print('{"pid": %d}' % worker.pid, flush=True)
    time.sleep(1e6)
