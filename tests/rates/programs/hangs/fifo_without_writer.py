"""open() of a named pipe waits for a writer, which was not started.

Truth: {"expect": "hang", "says": "commands\\.fifo|named pipe|fifo", "statuses": [5]}
"""

import os

os.mkfifo("commands.fifo")
print('{"pid": %d}' % os.getpid(), flush=True)
with open("commands.fifo") as commands:
    commands.read()
