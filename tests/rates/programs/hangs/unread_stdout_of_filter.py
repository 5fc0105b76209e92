"""A parent writes all of the input of `cat` before it reads the output, and both pipes are full.

Truth: {"expect": "hang", "says": "pipe", "statuses": [1]}
"""

import os
import subprocess

filter_ = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print('{"pid": %d}' % os.getpid(), flush=True)
filter_.stdin.write(bytes(10**6))
