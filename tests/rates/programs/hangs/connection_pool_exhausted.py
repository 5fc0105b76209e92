"""Each of two threads has a connection of a pool of two and waits for a second one.

Truth: {"expect": "hang", "says": "queue|get|copy_table", "statuses": [1, 5], "core": true}
"""

import os
import queue
import threading

connections = queue.Queue()
both = threading.Barrier(2)
for n in range(2):
    connections.put(n)


def copy_table():
    source = connections.get()
    both.wait()
    target = connections.get()
    connections.put(source)
    connections.put(target)


for n in range(2):
    threading.Thread(target=copy_table, name=f"copy-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
