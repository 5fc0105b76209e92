"""A daemon does its work each second while its flag is set.

Truth: {"expect": "healthy"}
"""

import os
import signal
import time

running = True


def stop(number, frame):
    global running
    running = False


def work():
    with open("heartbeat", "w") as file:
        file.write(str(time.time()))


signal.signal(signal.SIGTERM, stop)
print('{"pid": %d}' % os.getpid(), flush=True)
while running:
    work()
    time.sleep(0.5)
