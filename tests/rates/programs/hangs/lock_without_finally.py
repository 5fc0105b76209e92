"""A function returns early, without the release of its lock; the heartbeat and the next caller live on.

Truth: {"expect": "hang", "says": "session_lock", "statuses": [1, 5], "core": true}
"""

import os
import threading
import time

session_lock = threading.Lock()


def login(user):
    session_lock.acquire()
    if not user:
        return False
    session_lock.release()
    return True


def heartbeat():
    while True:
        time.sleep(0.1)


threading.Thread(target=heartbeat, name="heartbeat", daemon=True).start()
first = threading.Thread(target=login, args=("",))
first.start()
first.join()
print('{"pid": %d}' % os.getpid(), flush=True)
login("me")
