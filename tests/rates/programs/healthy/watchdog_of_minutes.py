"""A watchdog thread sleeps for minutes between two checks, and MainThread sleeps for an hour.

Truth: {"expect": "healthy"}
"""

import os
import threading
import time


def watch():
    while True:
        time.sleep(180)
        os.statvfs("/")


threading.Thread(target=watch, name="watchdog", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    time.sleep(3600)
