"""A daemon that reads commands from a named pipe, which it has open for writing too so that the pipe never ends.

Truth: {"expect": "healthy"}
"""

import os

os.mkfifo("commands.fifo")
commands = os.open("commands.fifo", os.O_RDWR)
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    os.read(commands, 100)
