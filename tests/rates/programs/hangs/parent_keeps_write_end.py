"""A parent reads a pipe until its end, and has the write end open itself; the child that wrote has ended.

Truth: {"expect": "hang", "says": "pipe", "statuses": [1]}
"""

import os

reading, writing = os.pipe()
child = os.fork()
if child == 0:
    os.write(writing, b"result")
    os._exit(0)
os.waitpid(child, 0)
print('{"pid": %d}' % os.getpid(), flush=True)
with open(reading, "rb") as file:
    file.read()
