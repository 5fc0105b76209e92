"""A C function of a driver sleeps and is called by ctypes.PyDLL, which keeps the GIL.

After buresu/ndi-python#38.

Truth: {"expect": "hang", "says": "GIL.*(sleep|wait_for_device|MainThread)", "never": "DEADLOCK", "statuses": [5], "core": true}
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


def wait_for_device():
    driver.sleep(600)


for n in range(2):
    threading.Thread(target=heartbeat, name=f"heartbeat-{n}", daemon=True).start()
time.sleep(0.1)
print('{"pid": %d}' % os.getpid(), flush=True)
wait_for_device()
