"""A Python prompt at a terminal, at which nobody types.

Truth: {"expect": "healthy"}
"""

import os
import pty
import sys
import time

child, terminal = pty.fork()
if child == 0:
    os.execv(sys.executable, [sys.executable, "-q", "-i"])
while b">>>" not in os.read(terminal, 1000):
    pass
time.sleep(0.1)
print('{"pid": %d}' % child, flush=True)
time.sleep(10**6)
