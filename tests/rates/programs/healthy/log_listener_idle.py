"""logging's QueueListener without records, and a heartbeat every ten seconds.

Truth: {"expect": "healthy"}
"""

import logging
import logging.handlers
import os
import queue
import time

records = queue.Queue()
logging.handlers.QueueListener(records, logging.NullHandler()).start()
logger = logging.getLogger("app")
logger.addHandler(logging.handlers.QueueHandler(records))
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    logger.warning("alive")
    time.sleep(10)
