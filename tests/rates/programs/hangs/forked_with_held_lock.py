"""A process forks while a thread holds a lock; the child has the locked copy and no such thread.

After getsentry/sentry-python#6148.

Truth: {"expect": "hang", "says": "_thread_lock.*in the parent, process [0-9]+, thread 2 .collect. has it", "statuses": [1]}
"""

import os
import threading


class Monitor:
    def __init__(self):
        self._thread_lock = threading.Lock()

    def ensure_running(self):
        with self._thread_lock:
            pass


monitor = Monitor()
held, end = threading.Event(), threading.Event()


def collect():
    with monitor._thread_lock:
        held.set()
        end.wait()


threading.Thread(target=collect, name="collect", daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    print('{"pid": %d}' % os.getpid(), flush=True)
    monitor.ensure_running()
    os._exit(0)
os.waitpid(child, 0)
