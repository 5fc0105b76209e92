"""A C function sleeps in short naps and is called by ctypes.PyDLL in a native loop, which keeps the GIL.

After xbmc/xbmc#2115.

Truth: {"expect": "hang", "says": "GIL", "never": "DEADLOCK", "statuses": [5]}
"""

import ctypes
import os
import sys
import threading
import time

if hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled():
    print('{"skip": "this interpreter has no GIL"}', flush=True)
    sys.exit()

driver = ctypes.PyDLL(None)


def heartbeat():
    while True:
        time.sleep(0.05)


def poll_device():
    while True:
        driver.usleep(100000)


for n in range(2):
    threading.Thread(target=heartbeat, name=f"heartbeat-{n}", daemon=True).start()
time.sleep(0.1)
# the other threads get the GIL so rarely that nothing moves on
print('{"pid": %d}' % os.getpid(), flush=True)
import sys

sys.setswitchinterval(1e6)
poll_device()
