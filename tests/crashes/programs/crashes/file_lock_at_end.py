"""A daemon thread has the lock of the file that Python flushes when it ends.

Truth: {"says": ["SIGABRT", "could not acquire lock for <_io.BufferedWriter name=\\d+> at interpreter shutdown", "thread 2 owns the lock of that file, and is in \\w*write\\(\\)"], "python": ["debian", "3.9", "3.13"]}
"""

import atexit
import io
import os
import sys
import threading
import time

_, writer = os.pipe()
log = open(writer, "wb", buffering=1 << 16)


def drain():
    while True:
        log.write(b"x" * (1 << 20))


def switch():
    sys.stdout = io.TextIOWrapper(log)


threading.Thread(target=drain, daemon=True).start()
time.sleep(0.5)
atexit.register(switch)
