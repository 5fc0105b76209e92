"""A child was stopped by SIGSTOP, as job control or a debugger do; its parent waits for its end.

Truth: {"expect": "hang", "says": "stopped", "statuses": [5]}
"""

import os
import signal
import subprocess
import sys

child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e6)"])
os.kill(child.pid, signal.SIGSTOP)
os.waitpid(child.pid, os.WUNTRACED)
print('{"pid": %d}' % os.getpid(), flush=True)
child.wait()
