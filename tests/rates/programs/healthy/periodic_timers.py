"""Three threading.Timer, each of which starts the next one.

Truth: {"expect": "healthy"}
"""

import os
import threading


def tick(seconds):
    threading.Timer(seconds, tick, (seconds,)).start()


for seconds in (0.5, 5, 300):
    tick(seconds)
print('{"pid": %d}' % os.getpid(), flush=True)
