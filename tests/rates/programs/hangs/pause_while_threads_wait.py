"""MainThread waits with signal.pause() for a signal that nobody sends, and has the lock that all workers need.

Truth: {"expect": "hang", "says": "MainThread.*(start_lock|pause)", "never": "DEADLOCK", "statuses": [5], "core": true}
"""

import os
import signal
import threading

start_lock = threading.Lock()


def work():
    with start_lock:
        pass


with start_lock:
    for n in range(3):
        threading.Thread(target=work, name=f"worker-{n}").start()
    print('{"pid": %d}' % os.getpid(), flush=True)
    signal.pause()
