"""A parent waits for the lines of a child, which brings one every 200 ms.

Truth: {"expect": "healthy"}
"""

import os
import subprocess
import sys

TICK = "import time\nwhile True: print('tick', flush=True); time.sleep(0.2)"
child = subprocess.Popen([sys.executable, "-c", TICK], stdout=subprocess.PIPE)
print('{"pid": %d}' % os.getpid(), flush=True)
for line in child.stdout:
    pass
