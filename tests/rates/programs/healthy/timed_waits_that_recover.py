"""Threads wait with timeouts of a second for an Event that is rarely set, and do other work after each timeout.

Truth: {"expect": "healthy"}
"""

import os
import threading

wake = threading.Event()
done = 0


def housekeeping():
    global done
    while True:
        if not wake.wait(1):
            done += 1


for n in range(3):
    threading.Thread(target=housekeeping, name=f"housekeeping-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
