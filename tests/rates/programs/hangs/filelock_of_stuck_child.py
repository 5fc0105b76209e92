"""A process waits for a lock file that its child has, which waits for its standard input.

Truth: {"expect": "hang", "says": "app\\.lock", "statuses": [5, 1], "packages": ["filelock"]}
"""

import os
import subprocess
import sys

from filelock import FileLock

child = subprocess.Popen(
    [sys.executable, "-c", "import sys\nfrom filelock import FileLock\nwith FileLock('app.lock'):\n"
     " print('locked', flush=True)\n sys.stdin.read()"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print('{"pid": %d}' % os.getpid(), flush=True)
with FileLock("app.lock"):
    pass
