"""MainThread joins a queue; the worker forgot task_done() where an item fails, and waits for the next one.

Truth: {"expect": "hang", "says": "join|task_done|unfinished|queue", "statuses": [1], "core": true}
"""

import os
import queue
import threading

jobs = queue.Queue()


def work():
    while True:
        job = jobs.get()
        if job == 2:
            continue
        jobs.task_done()


threading.Thread(target=work, name="worker", daemon=True).start()
for n in range(4):
    jobs.put(n)
print('{"pid": %d}' % os.getpid(), flush=True)
jobs.join()
