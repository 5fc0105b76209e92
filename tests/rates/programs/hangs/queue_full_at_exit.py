"""Two workers put more into a multiprocessing.Queue than its pipe holds; MainThread joins them before it reads.

The documentation of multiprocessing warns of it.

After pytorch/pytorch#33721, where MainThread joins the thread that puts.

Truth: {"expect": "hang", "says": "pipe|queue|loader", "statuses": [1]}
"""

import multiprocessing
import os


def load(queue):
    for _ in range(100):
        queue.put(bytes(100000))


if __name__ == "__main__":
    queue = multiprocessing.Queue()
    loaders = [multiprocessing.Process(target=load, args=(queue,), name=f"loader-{n}") for n in range(2)]
    [loader.start() for loader in loaders]
    print('{"pid": %d}' % os.getpid(), flush=True)
    [loader.join() for loader in loaders]
