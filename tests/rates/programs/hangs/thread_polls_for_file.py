"""A program polls for a file with os.path.exists in a function that is called from a thread.

Truth: {"expect": "hang", "says": "wait_for", "statuses": [5]}
"""

import os
import threading
import time


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.2)


def work():
    wait_for("ready.flag")


thread = threading.Thread(target=work, name="starter")
thread.start()
print('{"pid": %d}' % os.getpid(), flush=True)
thread.join()
