"""A forked process keeps the pipe of multiprocessing's resource tracker open; the parent waits for the tracker's end.

After python/cpython#146313.

Truth: {"expect": "hang", "says": "tracker|pipe|inherited", "statuses": [5]}
"""

import os
import time
from multiprocessing import resource_tracker

tracker = resource_tracker._resource_tracker
resource_tracker.ensure_running()
if os.fork() == 0:
    time.sleep(100000)
print('{"pid": %d}' % os.getpid(), flush=True)
os.close(tracker._fd)
os.waitpid(tracker._pid, 0)
