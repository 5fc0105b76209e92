"""Two requests fail before they return their permits; all later requests wait. A health check still runs.

After lm-sys/FastChat#3405.

Truth: {"expect": "hang", "says": "semaphore", "statuses": [1, 5], "core": true}
"""

import os
import threading
import time

permits = threading.BoundedSemaphore(2)


def fetch(fails):
    permits.acquire()
    if fails:
        raise SystemExit
    permits.release()


def health_check():
    while True:
        time.sleep(0.1)


threading.Thread(target=health_check, name="health", daemon=True).start()
for n in range(2):
    failing = threading.Thread(target=fetch, args=(True,))
    failing.start()
    failing.join()
for n in range(3):
    threading.Thread(target=fetch, args=(False,), name=f"fetch-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
