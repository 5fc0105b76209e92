"""MainThread waits for a child that computes for a long time.

Truth: {"expect": "healthy"}
"""

import os
import subprocess
import sys

print('{"pid": %d}' % os.getpid(), flush=True)
subprocess.run([sys.executable, "-c", "while True: sum(range(10**6))"], check=True)
