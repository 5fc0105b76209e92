"""The only worker was killed in an item; MainThread waits for its results.

After pytorch/pytorch#21554.

Truth: {"expect": "hang", "says": "worker.*(ended|killed|zombie|exit|SIGKILL)|(ended|killed|zombie|exit|SIGKILL).*worker", "statuses": [1]}
"""

import multiprocessing
import os
import signal


def worker(items, results):
    while True:
        item = items.get()
        if item == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        results.put(item)


def next_batch(results):
    return results.get()


if __name__ == "__main__":
    items, results = multiprocessing.Queue(), multiprocessing.Queue()
    multiprocessing.Process(target=worker, args=(items, results), name="worker", daemon=True).start()
    for n in range(5):
        items.put(n)
    print('{"pid": %d}' % os.getpid(), flush=True)
    while True:
        next_batch(results)
