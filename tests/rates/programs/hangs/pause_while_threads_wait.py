"""MainThread waits for a signal that nobody sends; the workers wait for the start that it gives after that.

Truth: {"expect": "hang", "says": "pause|signal", "statuses": [1, 5]}
"""

import os
import signal
import threading

start = threading.Event()
for n in range(3):
    threading.Thread(target=start.wait, name=f"worker-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
signal.pause()
start.set()
