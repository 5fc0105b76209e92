"""A daemon waits for SIGHUP with signal.pause(), to read its configuration again.

Truth: {"expect": "healthy"}
"""

import os
import signal


def reload(number, frame):
    pass


signal.signal(signal.SIGHUP, reload)
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    signal.pause()
