"""A generator was left in the middle of its `with` block and is still referenced, and so its lock stays locked.

Truth: {"expect": "hang", "says": "table_lock|rows", "statuses": [1], "core": true}
"""

import os
import threading

table_lock = threading.Lock()


def rows():
    with table_lock:
        yield 1
        yield 2


first = rows()
next(first)
print('{"pid": %d}' % os.getpid(), flush=True)
for row in rows():
    pass
