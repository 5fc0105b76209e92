"""Python is ended for another reason while a daemon thread has the lock of a file.

Truth: {"says": ["SIGABRT", "Fatal Python error: .*the index has 2 roots", "check at"], "never": "owns the lock of that file"}
"""

import ctypes
import os
import threading
import time

_, writer = os.pipe()
log = open(writer, "wb", buffering=1 << 16)


def drain():
    while True:
        log.write(b"x" * (1 << 20))


def check():
    ctypes.pythonapi.Py_FatalError(b"the index has 2 roots at the end")


threading.Thread(target=drain, daemon=True).start()
time.sleep(0.5)
check()
