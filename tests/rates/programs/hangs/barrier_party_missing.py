"""A phase of a computation has three parties; one failed, and the barrier has no timeout.

Truth: {"expect": "hang", "says": "barrier", "statuses": [1], "core": true}
"""

import os
import threading

phase = threading.Barrier(3)


def compute(n):
    if n == 2:
        raise SystemExit("no data")
    phase.wait()


threads = [threading.Thread(target=compute, args=(n,), name=f"party-{n}") for n in range(3)]
[thread.start() for thread in threads]
print('{"pid": %d}' % os.getpid(), flush=True)
[thread.join() for thread in threads]
