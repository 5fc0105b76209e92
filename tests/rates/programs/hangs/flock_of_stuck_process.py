"""A child holds a lock file with flock() and waits for its next command, which never comes; the parent waits for the lock.

Truth: {"expect": "hang", "says": "app\\.lock|flock|file lock", "statuses": [1, 5]}
"""

import fcntl
import os

commands, send = os.pipe()
locked, tell = os.pipe()
if os.fork() == 0:
    file = open("app.lock", "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(tell, b"x")
    os.read(commands, 1)
    os._exit(0)
os.read(locked, 1)
print('{"pid": %d}' % os.getpid(), flush=True)
with open("app.lock", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
