"""All threads log to a bounded queue; its listener was stopped, and so they wait to put.

Truth: {"expect": "hang", "says": "queue|put|full", "statuses": [1, 5], "core": true}
"""

import logging
import logging.handlers
import os
import queue
import threading

records = queue.Queue(10)


class Handler(logging.handlers.QueueHandler):
    def enqueue(self, record):
        self.queue.put(record)


listener = logging.handlers.QueueListener(records, logging.NullHandler())
listener.start()
listener.stop()
logger = logging.getLogger("app")
logger.addHandler(Handler(records))


def work():
    while True:
        logger.warning("work")


for n in range(3):
    threading.Thread(target=work, name=f"worker-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
