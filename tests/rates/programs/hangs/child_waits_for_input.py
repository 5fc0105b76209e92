"""A tool of which no input was expected asks a question on its terminal; the parent waits for the end of its output.

Truth: {"expect": "hang", "says": "terminal|/dev/pts|input|child", "statuses": [1, 5]}
"""

import os
import pty
import sys

child, terminal = pty.fork()
if child == 0:
    os.execv(sys.executable, [sys.executable, "-c", "input('Overwrite (y/n)? ')"])
os.read(terminal, 10)
print('{"pid": %d}' % os.getpid(), flush=True)
os.waitpid(child, 0)
