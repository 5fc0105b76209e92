"""A command started a daemon, which inherited its output; check_output() waits for the end of that pipe.

After bpo-37424.

Truth: {"expect": "hang", "says": "sleep", "statuses": [5]}
"""

import os
import subprocess

print('{"pid": %d}' % os.getpid(), flush=True)
subprocess.check_output("sleep 100000 & echo started", shell=True)
