"""MainThread joins a worker that does its work each half second until its stop flag is set.

Truth: {"expect": "healthy"}
"""

import os
import threading
import time

stop = threading.Event()


def work():
    while not stop.is_set():
        with open("heartbeat", "w") as file:
            file.write(str(time.time()))
        time.sleep(0.5)


worker = threading.Thread(target=work, name="worker")
worker.start()
print('{"pid": %d}' % os.getpid(), flush=True)
worker.join()
