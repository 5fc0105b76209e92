"""A process of its own design takes items from a queue, one after another; its parent has nothing to do now.

Truth: {"expect": "healthy"}
"""

import multiprocessing
import time


def work(items):
    for item in iter(items.get, None):
        print(item)


if __name__ == "__main__":
    items = multiprocessing.Queue()
    worker = multiprocessing.Process(target=work, args=(items,))
    worker.start()
    items.put("first")
    time.sleep(0.2)
    print('{"pid": %d}' % worker.pid, flush=True)
    time.sleep(1e6)
