"""Two processes take the same lock file with flock() in turns, and hold it for 10 ms.

Truth: {"expect": "healthy"}
"""

import fcntl
import os
import time

os.fork()
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    with open("app.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(0.01)
