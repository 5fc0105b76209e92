"""A program waits for the next command on its standard input.

Truth: {"expect": "healthy"}
"""

import os
import sys

print('{"pid": %d}' % os.getpid(), flush=True)
for line in sys.stdin:
    print(line.upper(), end="", flush=True)
