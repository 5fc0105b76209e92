"""A connection is made again with ever longer pauses, under the lock that every request needs.

Truth: {"expect": "hang", "says": "reconnect.*conn_lock|conn_lock.*reconnect", "never": "DEADLOCK", "statuses": [5], "core": true}
"""

import os
import threading
import time

conn_lock = threading.Lock()
connecting = threading.Event()


def reconnect():
    with conn_lock:
        connecting.set()
        time.sleep(600)


def handle():
    with conn_lock:
        return 1


threading.Thread(target=reconnect, name="reconnect").start()
connecting.wait()
for n in range(8):
    threading.Thread(target=handle, name=f"request-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
