"""A pool is forked while a thread writes a record to a handler of the application, which has a lock of its own.

After python/cpython#50970, which mended it for the handlers of logging only.

Truth: {"expect": "hang", "says": "pool|fork|_lock|worker", "statuses": [1, 5]}
"""

import multiprocessing
import os
import threading
import time


class AuditLog:
    def __init__(self):
        self.audit_lock = threading.Lock()

    def write(self, text, seconds=0.0):
        with self.audit_lock:
            time.sleep(seconds)


log = AuditLog()


def work(n):
    log.write(f"item {n}")
    return n


if __name__ == "__main__":
    threading.Thread(target=log.write, args=("slow", 0.3), name="auditor").start()
    time.sleep(0.05)
    with multiprocessing.Pool(2) as pool:
        time.sleep(0.5)
        print('{"pid": %d}' % os.getpid(), flush=True)
        pool.map(work, range(4))
