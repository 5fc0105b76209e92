"""A thread polls for a file with the lock of the configuration held; nobody writes the file.

Truth: {"expect": "hang", "says": "loader.*config_lock|config_lock.*loader", "never": "DEADLOCK", "statuses": [5]}
"""

import os
import threading
import time

config_lock = threading.Lock()
loading = threading.Event()


def wait_for_config(path):
    with config_lock:
        loading.set()
        while not os.path.exists(path):
            time.sleep(0.1)


def setting():
    with config_lock:
        return 1


threading.Thread(target=wait_for_config, args=("config.ready",), name="loader").start()
loading.wait()
for n in range(3):
    threading.Thread(target=setting, name=f"setting-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
