"""A C function reads from a pipe of this process with the GIL held; the thread that would write needs the GIL.

Truth: {"expect": "hang", "says": "GIL", "statuses": [1, 5], "core": true}
"""

import ctypes
import os
import threading
import time

reading, writing = os.pipe()


def notify():
    time.sleep(0.2)
    os.write(writing, b"x")


threading.Thread(target=notify, name="notify").start()
print('{"pid": %d}' % os.getpid(), flush=True)
ctypes.PyDLL(None).read(reading, ctypes.create_string_buffer(1), 1)
