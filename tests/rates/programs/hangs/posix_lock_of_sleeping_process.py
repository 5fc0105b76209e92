"""A child holds a POSIX lock of a file and sleeps for hours; the parent waits for the lock with lockf().

Truth: {"expect": "hang", "says": "spool|file lock|lockf", "statuses": [5]}
"""

import fcntl
import os
import time

locked, tell = os.pipe()
if os.fork() == 0:
    file = open("spool.db", "w")
    fcntl.lockf(file, fcntl.LOCK_EX)
    os.write(tell, b"x")
    time.sleep(20000)
    os._exit(0)
os.read(locked, 1)
print('{"pid": %d}' % os.getpid(), flush=True)
with open("spool.db", "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
