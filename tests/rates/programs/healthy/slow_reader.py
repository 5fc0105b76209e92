"""A parent reads the output of a child slowly, so that the child waits with a full pipe most of the time.

Truth: {"expect": "healthy"}
"""

import os
import subprocess
import sys
import time

child = subprocess.Popen([sys.executable, "-c", "while True: print('x' * 1000)"], stdout=subprocess.PIPE)
print('{"pid": %d}' % os.getpid(), flush=True)
while child.stdout.read(4096):
    time.sleep(0.03)
