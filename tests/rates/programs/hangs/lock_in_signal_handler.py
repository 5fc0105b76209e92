"""A signal's handler takes the lock that the code which it interrupted has.

After patroni/patroni#3413, where the lock is that of a queue of logging.

Truth: {"expect": "hang", "says": "on_signal|handler|stats_lock", "statuses": [1], "core": true}
"""

import os
import signal
import threading

stats_lock = threading.Lock()


def on_signal(number, frame):
    with stats_lock:
        pass


signal.signal(signal.SIGUSR1, on_signal)
print('{"pid": %d}' % os.getpid(), flush=True)
with stats_lock:
    os.kill(os.getpid(), signal.SIGUSR1)
    print("done")
