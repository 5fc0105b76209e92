"""Two processes take two lock files with flock() in opposite orders.

Truth: {"expect": "hang", "says": "(a|b)\\.lock|flock|file lock", "statuses": [1]}
"""

import fcntl
import os

here, there = os.pipe(), os.pipe()


def take(first, second, tell, hear):
    with open(first, "w") as one, open(second, "w") as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        os.write(tell, b"x")
        os.read(hear, 1)
        fcntl.flock(two, fcntl.LOCK_EX)


print('{"pid": %d}' % os.getpid(), flush=True)
if os.fork() == 0:
    take("b.lock", "a.lock", here[1], there[0])
else:
    take("a.lock", "b.lock", there[1], here[0])
